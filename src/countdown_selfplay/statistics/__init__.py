"""Estimates with intervals: pass@k, majority@k, bootstrap, scaling curves. Needs only NumPy."""
