"""Unbiased pass@k and majority@k of k answers drawn from n without replacement."""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from ..errors import ConfigError, DataError


def pass_at_k(n: int, c: int, k: int) -> float:
    """Return 1 - C(n-c, k) / C(n, k) for n answers of which c are correct (Chen et al. 2021, eq. 1), correctly
    rounded. Raises DataError unless 0 <= c <= n; ConfigError unless 1 <= k <= n."""
    if not 1 <= k <= n:
        raise ConfigError(f"`k` ({k}) must lie between 1 and the number of answers per problem, n = {n}.")
    if not 0 <= c <= n:
        raise DataError(f"{c} correct answers out of {n} are not possible; counts must lie between 0 and n = {n}.")
    total = math.comb(n, k)
    return (total - math.comb(n - c, k)) / total


def pass_at_k_array(counts: Sequence[int] | np.ndarray, n: int, k: int) -> np.ndarray:
    """Return `pass_at_k` of every problem, (problems,). `counts`: correct answers per problem, out of `n`. Raises
    DataError unless there are any, all whole and in [0, n]."""
    counts_P = np.asarray(counts)
    if counts_P.ndim != 1 or counts_P.size == 0 or counts_P.dtype.kind not in "iu":
        raise DataError(f"Counts must be whole numbers, one per problem, got {counts_P.shape} of {counts_P.dtype}.")
    for i in np.flatnonzero((counts_P < 0) | (counts_P > n))[:1]:
        raise DataError(f"Problem {i} has {counts_P[i]} correct answers out of n = {n}; counts must lie in [0, n].")
    return np.array([pass_at_k(n, c, k) for c in range(n + 1)])[counts_P]


def majority_at_k(
    answers: Sequence[Sequence[Hashable | None]], correct: Sequence[Sequence[bool]], k: int
) -> np.ndarray:
    """Return the probability per problem that the majority answer of k of its n samples is correct, shape (problems,),
    float64. `answers`: the answer of each sample (a value, an expression), None for no vote; `correct`: whether it is
    right. The k samples are drawn without replacement, and all C(n, k) ways are counted exactly. A tie counts by its
    share of right answers, k samples without a vote count 0. Wang et al. report k = 8, 32. Raises ConfigError unless 1
    <= k <= n; DataError if the lists do not match or one answer is called both right and wrong."""
    if len(answers) != len(correct) or not answers:
        raise DataError(f"majority_at_k() needs both of the same problems, got {len(answers)} and {len(correct)}.")
    return np.array([_one(a, c, k, i) for i, (a, c) in enumerate(zip(answers, correct, strict=True))])


def _one(answers: Sequence[Hashable | None], correct: Sequence[bool], k: int, problem: int) -> float:
    n = len(answers)
    if n != len(correct):
        raise DataError(f"Problem {problem} has {n} answers and {len(correct)} verdicts.")
    if not 1 <= k <= n:
        raise ConfigError(f"`k` ({k}) must lie between 1 and the {n} answers of problem {problem}.")
    right: dict[Hashable, bool] = {}
    for answer, is_right in zip(answers, correct, strict=True):
        if answer is not None and right.setdefault(answer, bool(is_right)) != bool(is_right):
            raise DataError(f"Problem {problem}: the answer {answer!r} is called both right and wrong.")
    votes = Counter(answer for answer in answers if answer is not None)
    good = tuple(sorted(votes[answer] for answer in votes if right[answer]))
    bad = tuple(sorted(votes[answer] for answer in votes if not right[answer]))
    return _exact(good, bad, n - votes.total(), k)


@lru_cache(maxsize=1 << 14)
def _exact(good: tuple[int, ...], bad: tuple[int, ...], blank: int, k: int) -> float:
    """Return the probability of a right majority: over right answers and their votes m, the sum of the ways in which
    no other answer gets more, each divided by the number of answers with m votes. `good`, `bad`: samples per right and
    per wrong answer; `blank`: samples without a vote."""
    n = sum(good) + sum(bad) + blank
    total = Fraction(0)
    for i, count in enumerate(good):
        others = (*good[:i], *good[i + 1 :], *bad)
        for m in range(max(1, k - (n - count)), min(count, k) + 1):
            total += math.comb(count, m) * _shared(others, blank, k - m, m)
    return float(total / math.comb(n, k))


def _shared(others: tuple[int, ...], blank: int, left: int, m: int) -> Fraction:
    """Sum 1 / (1 + other answers with m votes) over all draws of `left` samples with at most m per other answer."""
    if left < m:  # no other answer can draw level
        return Fraction(math.comb(sum(others) + blank, left))
    ways = Counter({(j, 0): math.comb(blank, j) for j in range(min(blank, left) + 1)})  # (drawn, level with m)
    for count in others:
        longer: Counter[tuple[int, int]] = Counter()
        for (drawn, level), number in ways.items():
            for j in range(min(count, m, left - drawn) + 1):
                longer[drawn + j, level + (j == m)] += number * math.comb(count, j)
        ways = longer
    return sum((Fraction(w, level + 1) for (drawn, level), w in ways.items() if drawn == left), Fraction(0))
