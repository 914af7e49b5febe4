"""Symbolic proposers: problems made by edits of others, selected by difficulty and novelty."""

from .refresh import Choice, Mutation, Scored, Symbolic, pairs

__all__ = ["Choice", "Mutation", "Scored", "Symbolic", "pairs"]
