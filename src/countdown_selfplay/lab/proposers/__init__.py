"""lab/proposers."""
