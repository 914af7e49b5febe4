"""Estimates with intervals: pass@k, majority@k, bootstrap, cumulative solve rate. Student's t needs SciPy."""
