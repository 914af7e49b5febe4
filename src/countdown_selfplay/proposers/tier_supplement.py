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
"""Range of the numbers (Multimodal LLM Self-Play)."""

_PATIENCE = 10_000
"""Number of consecutive draws without a new problem after which the supplement ends."""


def supplement(domain: Any, request: Mapping[str, Any], count: int, seed: int, exclude: frozenset[str]) -> list[Any]:
    """Return up to `count` distinct problems for a request, none with a key in `exclude` or held out, deterministic
    given the arguments. Countdown: `operands` integers from 1 to 12 and a random operation after each, applied from
    left to right, drawn again until the result is a positive integer and the problem in range, so that all are
    solvable. Other domains draw random problems, of the requested rung if any; Countdown does so for a request without
    a size, and in moves it plants them."""
    if "rung" in request:
        return list(domain.random_of_rung(count, request["rung"], seed, exclude))
    if in_moves(domain) and domain.random_of_rung is not None and request.get("operands") in domain.rungs:
        return list(domain.random_of_rung(count, request["operands"], seed, exclude))
    if not isinstance(domain, CountdownDomain) or domain.answers == "moves" or "operands" not in request:
        return list(domain.random(count, seed, exclude))
    draws, taken, misses = Random(seed), set(exclude), 0
    problems: list[Problem] = []
    while len(problems) < count and misses < _PATIENCE:
        problem = _draw(draws, request["operands"])
        fits = problem is not None and domain.in_range(problem) and domain.as_asked(problem, **request)
        if problem is None or not fits or problem.key in taken or domain.is_held_out(problem):
            misses += 1
            continue
        problems.append(problem)
        taken.add(problem.key)
        misses = 0
    return problems


def _draw(draws: Random, operands: int) -> Problem | None:
    """Draw a problem; None if the result is not a positive integer."""
    numbers = [draws.randint(_LOW, _HIGH) for _ in range(operands)]
    value = Fraction(numbers[0])
    for number in numbers[1:]:
        value = _APPLY[draws.choice("+-*/")](value, number)
    return Problem(tuple(numbers), int(value)) if value > 0 and value.denominator == 1 else None


_APPLY = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
