"""Estimates with intervals: pass@k, majority@k, bootstrap over problems and seeds, scaling curves.
Needs only NumPy."""
