"""The exact solver: batches of problems, counts of solutions, reachable targets. NumPy only."""
