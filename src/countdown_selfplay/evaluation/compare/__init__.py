"""Runs and arms against each other, with paired intervals."""
