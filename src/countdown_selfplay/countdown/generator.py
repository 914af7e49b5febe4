"""Solvable problems from a seed: uniform over the solvable ones, distinct, and on one side of the held-out border.

Numbers and target are drawn independently and uniformly, unsolvable draws are dropped. The draws are a fixed function
of the seed and their position (SplitMix64), so the list depends neither on the NumPy version nor on the number of
cores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Literal, get_args

import numpy as np

from ..errors import ConfigError
from .problem import Problem, ProblemSpec, heldout_key
from .repeats import mix
from .solver import MAX_OPERANDS, solvable_arrays
from .values import Array

Split = Literal["train", "heldout"]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIELDS = MAX_OPERANDS + 2  # of a draw: operand count, target, numbers

DEAR_OPERANDS = 5
"""From here on a draw costs more to solve than to look up on which side of the split it lies."""

PATIENCE = 1 << 19
"""Draws without a new problem after which the ranges count as exhausted. About one draw in 28 is solvable at k=3."""


def _draws(seed: int, spec: ProblemSpec, start: int, count: int) -> tuple[Array, Array, Array]:
    """Operand counts (count,), numbers (count, most operands) and targets (count,) of draws start..start+count."""
    key = np.uint64(int.from_bytes(hashlib.blake2b(str(seed).encode(), digest_size=8).digest(), "big"))
    at = np.arange(start, start + count, dtype=np.uint64)[:, None] * np.uint64(_FIELDS)
    words = mix(key + (at + np.arange(1, _FIELDS + 1, dtype=np.uint64)) * _GAMMA)
    operands = np.array(spec.operands)[(words[:, 0] % np.uint64(len(spec.operands))).astype(np.int64)]
    targets = _within(words[:, 1], spec.target_low, spec.target_high)
    return operands, _within(words[:, 2:], spec.number_low, spec.number_high), targets


def _within(words: Array, low: int, high: int) -> Array:
    return (words % np.uint64(high - low + 1)).astype(np.int64) + low


def solvable_draws(spec: ProblemSpec, seed: int, split: Split) -> Iterator[tuple[int, list[Problem]]]:
    """Endless batches (draws, solvable problems on this side of the split) in the order of the draws, repeats
    included."""
    dear = max(spec.operands) >= DEAR_OPERANDS
    start, count, most = (0, 1 << 7, 1 << 10) if dear else (0, 1 << 10, 1 << 16)
    while True:
        operands, numbers, targets = _draws(seed, spec, start, count)
        chosen = np.zeros(count, dtype=bool)
        for k in set(spec.operands):
            members = np.flatnonzero(operands == k)
            if k >= DEAR_OPERANDS:
                sides = [_on_side(_problem(numbers[i, :k], targets[i]), split) for i in members]
                members = members[np.array(sides, dtype=bool)]
            chosen[members] = solvable_arrays(numbers[members, :k], targets[members])
        problems = [_problem(numbers[i, : operands[i]], targets[i]) for i in np.flatnonzero(chosen)]
        yield count, [problem for problem in problems if _on_side(problem, split)]
        start, count = start + count, min(2 * count, most)


def _problem(numbers: Array, target: np.int64) -> Problem:
    return Problem(tuple(numbers.tolist()), int(target))


def _on_side(problem: Problem, split: Split) -> bool:
    return heldout_key(problem.key) == (split == "heldout")


def generate_problems(
    n: int,
    spec: ProblemSpec | None = None,
    seed: int = 0,
    exclude: Iterable[Problem | str] = (),
    split: Split = "train",
) -> list[Problem]:
    """`n` solvable problems in the ranges of `spec` (None: the defaults) with distinct keys, none of them in
    `exclude`.

    Reproducible from `seed`, and the first m of n are those of m. split: the sides "train" and "heldout" are disjoint
    for every pair of seeds, because the key alone decides (`heldout_key`). exclude: problems or keys. Raises
    ConfigError if the ranges hold fewer problems than asked for.
    """
    spec = ProblemSpec() if spec is None else spec
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise ConfigError(f"`n` ({n!r}) must be a count of problems, 0 or more.")
    if split not in get_args(Split):
        raise ConfigError(f"`split` ({split!r}) must be one of {', '.join(get_args(Split))}.")
    if max(spec.operands) > MAX_OPERANDS:
        raise ConfigError(f"`operands` ({spec.operands}) must not exceed {MAX_OPERANDS}, the most the solver takes.")
    seen = {item.key if isinstance(item, Problem) else str(item) for item in exclude}
    found: list[Problem] = []
    if n == 0:
        return found
    drawn, last_new = 0, 0
    for size, batch in solvable_draws(spec, seed, split):
        for problem in batch:
            if problem.key in seen:
                continue
            seen.add(problem.key)
            found.append(problem)
            last_new = drawn
            if len(found) == n:
                return found
        drawn += size
        if drawn - last_new > PATIENCE:
            raise ConfigError(
                f"Only {len(found)} of {n} problems were found in the '{split}' split of {spec} in {drawn:,} draws; "
                "ask for fewer or widen the ranges."
            )
    raise AssertionError("the draws never end")
