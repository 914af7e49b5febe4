"""majority@k: how often the most frequent of k sampled answers is correct."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from ..errors import ConfigError, DataError


def majority_at_k(
    answers: Sequence[Sequence[Hashable | None]], correct: Sequence[Sequence[bool]], k: int
) -> np.ndarray:
    """Chance per problem that the majority answer of k of its n samples is correct, shape (problems,), float64.

    `answers`: what each sample answered (a value, an expression), None for no answer, which has no vote; `correct`:
    whether it is right. The k samples are drawn without replacement, and all C(n, k) ways are counted exactly. A tie
    counts by its share of right answers; without a vote it is 0. Wang et al. report majority@8 and @32. ConfigError
    unless 1 <= k <= n; DataError if the lists do not match or one answer is called both right and wrong.
    """
    if len(answers) != len(correct) or not answers:
        raise DataError(
            f"majority_at_k() needs answers and verdicts of the same problems, got {len(answers)} and {len(correct)}."
        )
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
    """`good`, `bad`: samples per right and per wrong answer; `blank`: samples without a vote. Over the right answers
    and the votes m that one may get: ways in which no other answer gets more, each divided by the number of answers
    that get m."""
    n = sum(good) + sum(bad) + blank
    total = Fraction(0)
    for i, count in enumerate(good):
        others = (*good[:i], *good[i + 1 :], *bad)
        for m in range(max(1, k - (n - count)), min(count, k) + 1):
            total += math.comb(count, m) * _shared(others, blank, k - m, m)
    return float(total / math.comb(n, k))


def _shared(others: tuple[int, ...], blank: int, left: int, m: int) -> Fraction:
    """Sum over the ways to draw `left` samples with at most m of each other answer of 1 / (1 + answers with m)."""
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
