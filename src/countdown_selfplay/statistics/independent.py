"""The difference of two shares or means that were measured on samples of their own."""

from __future__ import annotations

from math import hypot

from .bootstrap import Estimate, Interval


def independent_difference(a: Estimate, b: Estimate) -> Interval:
    """b - a with the interval that follows from those of a and b, at their level: each end lies as far out as the two
    ends that lead there are from their values, added as squares (Newcombe 1998 for Wilson's intervals of shares; Zou
    and Donner 2008 for any two). Paired samples would give a narrower one.
    """
    difference = b.value - a.value
    low = difference - hypot(b.value - b.low, a.high - a.value)
    return Interval(difference, low, difference + hypot(b.high - b.value, a.value - a.low))
