"""Counting solutions: all forms of the whole set of operands, each of which is one inequivalent expression."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..rules import Rules
from .meeting import TOLERANCE, has_value, is_exact
from .nodes import form
from .repeats import counted
from .values import Array, Values

SLICE_ELEMENTS = 1 << 14
"""Values looked at in one go: they and their temporaries stay in the first two levels of cache."""


Bound = int | Array


class Hits(NamedTuple):
    """One entry per expression: its problem, its value, its form, and whether it is the form's negative."""

    problems: Array
    targets: Array
    forms: Array
    negated: Array


def hits(values: Values, ordered_PK: Array, symbols: tuple[int, ...], low: Bound, high: Bound, rules: Rules) -> Hits:
    """Every countable expression over all operands with an integer value from `low` to `high`: for all problems, or
    (problems,) one for each.

    values: of the whole set, for these numbers. ordered_PK: (problems, k), each row ascending and with equal numbers
    where `symbols` (of repeats.py) are equal.
    """
    most = np.maximum(np.abs(low), np.abs(high))
    least = np.where((np.less_equal(low, 0)) & (np.greater_equal(high, 0)), 0, np.minimum(np.abs(low), np.abs(high)))
    exact = is_exact(values.k, values.greatest, int(most.max(initial=0)))
    places, wholes = [], []
    with np.errstate(invalid="ignore"):
        for start, value_FP in values.quotients_of_all(SLICE_ELEMENTS):
            whole_FP = np.rint(value_FP)
            if exact:
                good_FP = whole_FP == value_FP
                np.abs(value_FP, out=value_FP)
                good_FP &= value_FP >= least
                good_FP &= value_FP <= most
            else:
                good_FP = np.abs(value_FP - whole_FP) <= TOLERANCE * np.abs(value_FP)
                good_FP &= (np.abs(whole_FP) >= least) & (np.abs(whole_FP) <= most)
            place = np.flatnonzero(good_FP)
            wholes.append(whole_FP.reshape(-1)[place].astype(np.int64))
            places.append(place + start * values.problems)
    flat, targets = np.concatenate(places), np.concatenate(wholes)
    forms, problems = np.divmod(flat, values.problems)
    chosen_of_signs = []
    for sign, mask in zip((1, -1), counted(symbols), strict=True):
        least_of, most_of = (bound if isinstance(bound, int) else bound[problems] for bound in (low, high))
        chosen = mask[forms] & (sign * targets >= least_of) & (sign * targets <= most_of)
        if not exact:
            chosen[chosen] = [
                # Its negative, which may be the one that counts, has then exactly the other value.
                has_value(form(tuple(ordered_PK[p].tolist()), int(f)), int(t), rules)
                for f, p, t in zip(forms[chosen], problems[chosen], targets[chosen], strict=True)
            ]
        chosen_of_signs.append(chosen)
    plus, minus = chosen_of_signs
    return Hits(
        np.concatenate([problems[plus], problems[minus]]),
        np.concatenate([targets[plus], -targets[minus]]),
        np.concatenate([forms[plus], forms[minus]]),
        np.repeat([False, True], [plus.sum(), minus.sum()]),
    )
