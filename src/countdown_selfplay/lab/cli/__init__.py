"""lab/cli."""
