"""Scaling fits of the cumulative solve rate: reading curves, fitting arms with intervals, checks of a fit."""
