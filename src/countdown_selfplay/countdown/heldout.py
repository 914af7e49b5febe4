"""`countdown-heldout-v1`: a frozen set of held-out problems, built from a seed and pinned by a checksum.

With the 50 public test problems the half-width of a 95% interval at pass@1 is 5 to 6 points; with the 500 of a stratum
here it is under 2. Every problem lies on the held-out side of the split (`heldout_key`), so none of them is ever given
by `generate_problems` with its default split, whatever the seed and ranges.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

from ..errors import DataError
from .generator import generate_problems
from .problem import Problem, ProblemSpec

NAME = "countdown-heldout-v1"
SEED = 20_000
STRATA = {3: 500, 4: 500, 5: 150, 6: 150}
"""Operand count -> problems; numbers from 1 to 99, targets from 10 to 100."""

CHECKSUM = "26a5d44c48238702aa7cc4a9e69f09ca74e0aa8c4f08894bfe56cec3b73c86c0"
"""SHA-256 of the lines `numbers=target` in order, each with a newline."""


def checksum(problems: list[Problem]) -> str:
    """SHA-256 of a list of problems: what they print and the order they stand in."""
    lines = "".join(f"{','.join(map(str, problem.numbers))}={problem.target}\n" for problem in problems)
    return hashlib.sha256(lines.encode()).hexdigest()


def heldout_problems(operands: int | None = None) -> list[Problem]:
    """The problems of `countdown-heldout-v1`, or of its stratum with this many operands (3, 4, 5 or 6).

    Built in about a second, then kept. Raises DataError if what was built is not the frozen set, and for a stratum
    that does not exist.
    """
    if operands is not None and operands not in STRATA:
        raise DataError(f"{NAME} has strata of {', '.join(map(str, STRATA))} operands, not of {operands}.")
    return [problem for problem in _frozen() if operands in (None, len(problem.numbers))]


@lru_cache(maxsize=1)
def _frozen() -> tuple[Problem, ...]:
    problems: list[Problem] = []
    for operands, count in STRATA.items():
        problems += generate_problems(count, ProblemSpec(operands=(operands,)), seed=SEED, split="heldout")
    if checksum(problems) != CHECKSUM:
        raise DataError(f"{NAME} was not built as it was frozen: the generator or the split has changed.")
    return tuple(problems)
