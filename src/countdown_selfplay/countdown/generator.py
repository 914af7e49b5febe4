"""Solvable problems, reproducible from a seed, with a train side and a held-out side that no seed can mix up."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from ..errors import ConfigError
from .problem import Problem
from .solver import _values

HELD_OUT_SHARE = 8  # one key in this many is held out
_PATIENCE = 2000  # draws without a new problem before the space counts as exhausted


@dataclass(frozen=True)
class ProblemSpec:
    """Which problems are meant: operand counts, range of the operands, range of the target (both ends included)."""

    operands: tuple[int, ...] = (3, 4)
    number_low: int = 1
    number_high: int = 99
    target_low: int = 10
    target_high: int = 100

    def admits(self, problem: Problem) -> bool:
        """Whether operand count, operands and target are in range. Solvability is not asked."""
        return (
            len(problem.numbers) in self.operands
            and self.number_low <= min(problem.numbers)
            and max(problem.numbers) <= self.number_high
            and self.target_low <= problem.target <= self.target_high
        )


def heldout_key(key: str) -> bool:
    """Whether a problem's key lies on the held-out side: decided by the key alone (blake2b), one key in eight."""
    digest = hashlib.blake2b(key.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % HELD_OUT_SHARE == 0


def generate_problems(
    n: int,
    spec: ProblemSpec | None = None,
    seed: int = 0,
    exclude: Collection[str] = (),
    split: Literal["train", "heldout"] = "train",
) -> list[Problem]:
    """`n` distinct solvable problems: numbers drawn uniformly, the target uniformly among those they can make in
    range.

    `exclude`: keys that must not appear. The two splits are disjoint for all seeds. ConfigError if the spec does not
    hold `n` problems on this side.
    """
    spec = ProblemSpec() if spec is None else spec
    if split not in ("train", "heldout"):
        raise ConfigError(f"`split` ({split!r}) must be 'train' or 'heldout'.")
    rng = random.Random(f"countdown:{seed}:{split}")
    found: dict[str, Problem] = {}
    excluded = set(exclude)
    misses = 0
    while len(found) < n:
        numbers = tuple(
            rng.randint(spec.number_low, spec.number_high)
            for _ in range(spec.operands[rng.randrange(len(spec.operands))])
        )
        in_range = sorted(
            value
            for value, denominator in _values(tuple(sorted(numbers)), False)
            if denominator == 1 and spec.target_low <= value <= spec.target_high
        )
        keep = [t for t in in_range if heldout_key(Problem(numbers, t).key) == (split == "heldout")]
        problem = Problem(numbers, rng.choice(keep)) if keep else None
        if problem is None or problem.key in found or problem.key in excluded:
            misses += 1
            if misses > _PATIENCE + 20 * n:
                raise ConfigError(
                    f"The spec holds only about {len(found)} problems on its {split} side and {n} were asked for; "
                    "widen "
                    f"the ranges ({spec}) or ask for fewer."
                )
            continue
        found[problem.key] = problem
    return list(found.values())
