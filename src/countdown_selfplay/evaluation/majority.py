"""majority@k: how often the most frequent of k sampled answers is correct."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import combinations

import numpy as np

from ..errors import ConfigError, DataError

EXACT_SUBSETS = 20_000  # up to this many subsets of k answers all of them are looked at
DRAWS = 4_000  # above it so many are drawn: a standard error of at most 0.008 per problem


def majority_at_k(
    answers: Sequence[Sequence[Hashable | None]], correct: Sequence[Sequence[bool]], k: int, seed: int = 0
) -> np.ndarray:
    """Chance per problem that the majority answer of k of its n samples is correct, shape (problems,), float64.

    `answers`: what each sample answered (a value, an expression), None for no answer, which has no vote; `correct`:
    whether it is right. The k samples are drawn without replacement, exactly where there are at most 20,000 ways and
    else by 4,000 draws of a private generator. A tie counts by its share of right answers; without a vote it is 0.
    Seed 002 reports majority@8 and @32. ConfigError unless 1 <= k <= n; DataError if the lists do not match or one
    answer is called both right and wrong.
    """
    if len(answers) != len(correct) or not answers:
        raise DataError(
            f"majority_at_k() needs answers and verdicts of the same problems, got {len(answers)} and {len(correct)}."
        )
    rng = np.random.default_rng(seed)
    return np.array([_one(a, c, k, i, rng) for i, (a, c) in enumerate(zip(answers, correct, strict=True))])


def _one(
    answers: Sequence[Hashable | None], correct: Sequence[bool], k: int, problem: int, rng: np.random.Generator
) -> float:
    n = len(answers)
    if n != len(correct):
        raise DataError(f"Problem {problem} has {n} answers and {len(correct)} verdicts.")
    if not 1 <= k <= n:
        raise ConfigError(f"`k` ({k}) must lie between 1 and the {n} answers of problem {problem}.")
    right: dict[Hashable, bool] = {}
    for answer, is_right in zip(answers, correct, strict=True):
        if answer is not None and right.setdefault(answer, bool(is_right)) != bool(is_right):
            raise DataError(f"Problem {problem}: the answer {answer!r} is called both right and wrong.")
    if not any(right.values()):
        return 0.0
    if math.comb(n, k) <= EXACT_SUBSETS:
        votes = [_vote([answers[i] for i in chosen], right) for chosen in combinations(range(n), k)]
    else:
        votes = [_vote([answers[i] for i in rng.permutation(n)[:k]], right) for _ in range(DRAWS)]
    return math.fsum(votes) / len(votes)


def _vote(answers: list[Hashable | None], right: dict[Hashable, bool]) -> float:
    counts = Counter(answer for answer in answers if answer is not None)
    if not counts:
        return 0.0
    most = max(counts.values())
    winners = [right[answer] for answer, count in counts.items() if count == most]
    return sum(winners) / len(winners)
