"""Interfaces between the parts of a run: games, proposers, guides, domains, rounds and metrics."""
