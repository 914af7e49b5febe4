"""warm_starts/cli."""
