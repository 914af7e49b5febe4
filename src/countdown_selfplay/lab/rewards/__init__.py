"""lab/rewards."""
