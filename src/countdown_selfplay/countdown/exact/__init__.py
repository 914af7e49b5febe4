"""Exact solver: batches of problems, counts of solutions, reachable targets. Needs only NumPy."""
