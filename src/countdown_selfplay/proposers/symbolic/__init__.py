"""Symbolic proposers: problems made by edits of others, selected by difficulty and novelty."""
