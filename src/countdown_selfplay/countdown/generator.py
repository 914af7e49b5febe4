"""Generator of solvable problems from a seed: distinct, reproducible, and from one split, training or held-out.

The operand count is drawn uniformly from the spec's (a count that is listed twice is twice as likely); then numbers
and target are drawn independently and uniformly, and unsolvable draws are dropped, so that all solvable draws are
equally likely. All draws are a fixed function of the seed and their position (SplitMix64): the list depends neither on
the NumPy version nor on the number of cores."""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Literal, get_args

import numpy as np

from ..errors import ConfigError, DataError
from ..options import is_whole
from .exact.forms import Array
from .exact.listing import mix
from .exact.solver import MAX_OPERANDS, solvable_arrays
from .problem import DEFAULT_RULES, Problem, ProblemSpec, Rules, heldout_key

Split = Literal["train", "heldout"]
Accept = Callable[[Problem], bool] | None

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIELDS = MAX_OPERANDS + 2  # indices of a draw: unused, target, numbers

DEAR_OPERANDS = 5
"""Operand count from which solving a draw costs more than testing its split."""

PATIENCE = 1 << 19
"""Number of draws without a new problem after which an operand count is exhausted; at k=3, 1 in 28 is solvable."""

DEAR_PATIENCE = 1 << 14
"""PATIENCE for counts with expensive draws, most of which are solvable."""


def _key(text: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big"))


def _draws(seed: int, spec: ProblemSpec, start: int, count: int) -> tuple[Array, Array]:
    """Return numbers, (count, MAX_OPERANDS), and targets, (count,), of `count` draws from draw `start` on."""
    at = np.arange(start, start + count, dtype=np.uint64)[:, None] * np.uint64(_FIELDS)
    words = mix(_key(str(seed)) + (at + np.arange(1, _FIELDS + 1, dtype=np.uint64)) * _GAMMA)
    numbers = _within(words[:, 2:], spec.number_low, spec.number_high)
    return numbers, _within(words[:, 1], spec.target_low, spec.target_high)


def _operand_counts(seed: int, spec: ProblemSpec, n: int) -> Iterator[int]:
    for start in range(1, n + 1, 1 << 16):
        at = np.arange(start, min(start + (1 << 16), n + 1), dtype=np.uint64)
        words = mix(_key(f"operands {seed}") + at * _GAMMA)
        yield from np.array(spec.operands)[(words % np.uint64(len(spec.operands))).astype(np.int64)].tolist()


def _within(words: Array, low: int, high: int) -> Array:
    return (words % np.uint64(high - low + 1)).astype(np.int64) + low


def solvable_draws(k: int, spec: ProblemSpec, seed: int, split: Split, rules: Rules) -> Iterator[Problem | int]:
    """Yield endlessly the solvable problems of `split` with k numbers, in the order of the draws and with repeats;
    after each batch, yield the number of draws that it took."""
    start, count, most = (0, 1 << 7, 1 << 10) if k >= DEAR_OPERANDS else (0, 1 << 10, 1 << 16)
    while True:
        numbers, targets = _draws(seed, spec, start, count)
        numbers = numbers[:, :k]
        members = np.arange(count)
        if k >= DEAR_OPERANDS:
            members = np.array([i for i in members if _on_side(_problem(numbers[i], targets[i]), split)], dtype=int)
        members = members[solvable_arrays(numbers[members], targets[members], rules)]
        problems = (_problem(numbers[i], targets[i]) for i in members)
        yield from (problem for problem in problems if k >= DEAR_OPERANDS or _on_side(problem, split))
        yield count
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
    rules: Rules = DEFAULT_RULES,
    accept: Accept = None,
) -> list[Problem]:
    """Return `n` solvable problems in the ranges of `spec` with distinct keys. Deterministic given `seed`; a smaller
    `n` gives a prefix of the list. An operand count without further problems is no longer drawn.

    Args:
        spec: Ranges. None: the defaults.
        exclude: Problems or keys to leave out.
        split: "train" or "heldout", disjoint for every pair of seeds, because the key alone decides (`heldout_key`).
        rules: Rules of a solution.
        accept: Further condition, called once per new problem.

    Raises:
        ConfigError: If there are fewer problems, or an argument is invalid.
    """
    return list(iterate_problems(n, spec or ProblemSpec(), seed, exclude, split, rules, accept))


def check_request(n: int, split: str) -> None:
    """Raise ConfigError for an invalid number of problems or an unknown split."""
    if not is_whole(n, 0):
        raise ConfigError(f"`n` ({n!r}) must be a count of problems, 0 or more.")
    if split not in get_args(Split):
        raise ConfigError(f"`split` ({split!r}) must be one of {', '.join(get_args(Split))}.")


def iterate_problems(
    n: int, spec: ProblemSpec, seed: int, exclude: Iterable[Problem | str], split: Split, rules: Rules, accept: Accept
) -> Iterator[Problem]:
    """Yield the problems of `generate_problems` one by one, for very large `n`. Arguments are checked at the call."""
    check_request(n, split)
    if max(spec.operands) > MAX_OPERANDS:
        raise ConfigError(f"`operands` ({spec.operands}) must not exceed {MAX_OPERANDS}, the most the solver takes.")
    seen = {item.key if isinstance(item, Problem) else str(item) for item in exclude}
    # Multisets of k numbers x targets: an upper bound; drawing would take hours to find out.
    numbers, targets = spec.number_high - spec.number_low + 1, spec.target_high - spec.target_low + 1
    most = sum(math.comb(numbers + k - 1, k) * targets for k in set(spec.operands))
    if n > most:
        raise ConfigError(
            f"{n} problems are more than the {most}, solvable or not, that there are in {spec}; ask for fewer or "
            "widen the ranges."
        )

    def stream() -> Iterator[Problem]:
        draws = {k: solvable_draws(k, spec, seed, split, rules) for k in set(spec.operands)}
        for i, wanted in enumerate(_operand_counts(seed, spec, n)):
            problem = None
            while problem is None and draws:
                k = wanted if wanted in draws else sorted(draws)[i % len(draws)]
                problem = _next_new(draws[k], seen, accept, PATIENCE if k < DEAR_OPERANDS else DEAR_PATIENCE)
                if problem is None:  # exhausted: the other operand counts go on
                    del draws[k]
            if problem is None:
                raise ConfigError(
                    f"Only {i} of {n} problems were found in the '{split}' split of {spec}; ask for fewer or widen "
                    "the ranges."
                )
            yield problem

    return stream()


def _next_new(draws: Iterator[Problem | int], seen: set[str], accept: Accept, patience: int) -> Problem | None:
    """Return the next new accepted problem, or None after `patience` draws without one."""
    since_new = 0
    for item in draws:
        if isinstance(item, int):
            since_new += item
            if since_new > patience:
                return None
        elif (key := item.key) not in seen:
            seen.add(key)
            if accept is None or accept(item):
                return item
    return None


NAME = "countdown-heldout-v1"
"""Name of a fixed list of held-out problems, which CHECKSUM verifies. With the 50 public test problems the half-width
of a 95% interval of pass@1 is 5 to 6 percentage points; with the 500 of a stratum here it is under 2."""
SEED = 20_000
STRATA = {3: 500, 4: 500, 5: 150, 6: 150}
"""Operand count -> number of problems; their numbers are from 1 to 99, their targets from 10 to 100."""

CHECKSUM = "26a5d44c48238702aa7cc4a9e69f09ca74e0aa8c4f08894bfe56cec3b73c86c0"
"""SHA-256 of the problems' lines `numbers=target` in order, each with a newline."""


def heldout_problems(operands: int | None = None) -> list[Problem]:
    """Return the problems of `countdown-heldout-v1`, or of its stratum with this many operands (3, 4, 5 or 6). Built
    in about a second, then cached. Raises DataError if the checksum differs, and for an unknown stratum."""
    if operands is not None and operands not in STRATA:
        raise DataError(f"{NAME} has strata of {', '.join(map(str, STRATA))} operands, not of {operands}.")
    return [problem for problem in _frozen() if operands in (None, len(problem.numbers))]


@lru_cache(maxsize=1)
def _frozen() -> tuple[Problem, ...]:
    problems: list[Problem] = []
    for operands, count in STRATA.items():
        problems += generate_problems(count, ProblemSpec(operands=(operands,)), seed=SEED, split="heldout")
    lines = "".join(f"{','.join(map(str, problem.numbers))}={problem.target}\n" for problem in problems)
    if hashlib.sha256(lines.encode()).hexdigest() != CHECKSUM:
        raise DataError(f"{NAME} was not built as it was frozen: the generator or the split has changed.")
    return tuple(problems)
