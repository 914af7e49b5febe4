"""Conjecturer rewards that no recipe of a paper names."""
