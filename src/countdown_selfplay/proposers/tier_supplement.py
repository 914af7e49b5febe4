"""Random problems for a tier whose conjecturers wrote too few (Multimodal LLM Self-Play)."""

import operator
from collections.abc import Mapping
from fractions import Fraction
from random import Random
from typing import Any

from ..contract.domain import in_moves
from ..countdown import Problem
from ..countdown.domain import CountdownDomain

_LOW, _HIGH = 1, 12
"""Of the numbers, in the paper."""

_PATIENCE = 10_000
"""Draws without a new problem after which the supplement is as long as it is."""


def supplement(domain: Any, asked: Mapping[str, Any], count: int, seed: int, exclude: frozenset[str]) -> list[Any]:
    """Up to `count` distinct problems as `asked`, none with a key in `exclude` nor of the held-out side; a function of
    the arguments alone.

    Countdown: `operands` integers from 1 to 12 and a random operation after each, applied from left to right; drawn
    again until the result is a positive integer and the problem in range. Every one is solvable. A domain of another
    kind makes its own random ones, of the rung if one is asked for, as Countdown does for a prompt that asks for no
    size; in moves they are planted ones of that size.
    """
    if "rung" in asked:
        return list(domain.random_of_rung(count, asked["rung"], seed, exclude))
    if in_moves(domain) and domain.random_of_rung is not None and asked.get("operands") in domain.rungs:
        return list(domain.random_of_rung(count, asked["operands"], seed, exclude))
    if not isinstance(domain, CountdownDomain) or domain.answers == "moves" or "operands" not in asked:
        return list(domain.random(count, seed, exclude))
    draws, taken, misses = Random(seed), set(exclude), 0
    found: list[Problem] = []
    while len(found) < count and misses < _PATIENCE:
        problem = _draw(draws, asked["operands"])
        fits = problem is not None and domain.in_range(problem) and domain.as_asked(problem, **asked)
        if problem is None or not fits or problem.key in taken or domain.is_held_out(problem):
            misses += 1
            continue
        found.append(problem)
        taken.add(problem.key)
        misses = 0
    return found


def _draw(draws: Random, operands: int) -> Problem | None:
    """None if the result is not a positive integer; no division is by 0, for the numbers are positive."""
    numbers = [draws.randint(_LOW, _HIGH) for _ in range(operands)]
    value = Fraction(numbers[0])
    for number in numbers[1:]:
        value = _APPLY[draws.choice("+-*/")](value, number)
    return Problem(tuple(numbers), int(value)) if value > 0 and value.denominator == 1 else None


_APPLY = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
