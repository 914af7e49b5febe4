# Tests: statistics/pass_at_k.py
"""pass@k and majority@k against fractions by hand and against counting every subset."""

import random
from collections import Counter
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from countdown_selfplay.evaluation import majority_at_k, pass_at_k, pass_at_k_array


def test_pass_at_k_is_the_share_of_subsets_with_a_correct_answer_where_factorials_overflow_too():
    n = 6
    for c in range(n + 1):
        for k in range(1, n + 1):
            subsets = list(combinations([True] * c + [False] * (n - c), k))
            assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, subsets)) / len(subsets), abs=1e-15)
    # C(1999,1000)/C(2000,1000) = 1000/2000
    assert pass_at_k(2000, 1, 1000) == 0.5
    assert pass_at_k(10, 3, 5) == 11 / 12 and pass_at_k(16, 0, 16) == 0  # C(7,5)/C(10,5) = 21/252 = 1/12
    assert pass_at_k_array([3, 0, 16], 16, 4).tolist() == [17 / 28, 0.0, 1.0]
    assert pass_at_k_array(np.array([8], dtype=np.uint8), 16, 2).tolist() == [23 / 30]


def test_the_most_frequent_answer_decides_and_ties_split():
    answers = [["22", "22", "15"], ["22", "15", "15"]]
    correct = [[True, True, False], [True, False, False]]
    assert majority_at_k(answers, correct, 3).tolist() == [1.0, 0.0]
    # a a b, a right. k = 1: 2/3. k = 2: {a,a} right, {a,b} twice a tie: (1 + 1/2 + 1/2) / 3. k = 3: right.
    for k, expected in ((1, 2 / 3), (2, 2 / 3), (3, 1.0)):
        assert majority_at_k([["a", "a", "b"]], [[True, True, False]], k) == pytest.approx([expected])
    # Two different right expressions and one wrong one: each has a vote, two of three tied winners are right.
    assert majority_at_k([["x", "y", "z"]], [[True, True, False]], 3) == pytest.approx([2 / 3])
    assert majority_at_k([[None, None, Fraction(22)]], [[False, False, True]], 3).tolist() == [1.0]
    assert majority_at_k([[None, None]], [[False, False]], 2).tolist() == [0.0]
    # k = 1 of three: the right answer is drawn in one of three cases.
    assert majority_at_k([[None, None, 22]], [[False, False, True]], 1) == pytest.approx([1 / 3])


def test_many_subsets_are_counted_exactly_as_by_looking_at_every_one():
    # 40 answers, 24 right ones alike and 16 wrong ones alike, k = 3: the majority is right if at least 2 of 3 are:
    # (C(24,3) + C(24,2) 16) / C(40,3) = (2024 + 4416) / 9880 = .6518; of 5 at least 3:
    # (C(24,5) + C(24,4) 16 + C(24,3) C(16,2)) / C(40,5) = (42504 + 170016 + 242880) / 658008 = .69209
    answers, correct = [["r"] * 24 + ["w"] * 16], [[True] * 24 + [False] * 16]
    assert majority_at_k(answers, correct, 3) == pytest.approx([6440 / 9880], rel=1e-12)
    assert majority_at_k(answers, correct, 5) == pytest.approx([455400 / 658008], rel=1e-12)
    rng = random.Random(0)
    for _ in range(60):
        n = rng.randint(1, 8)
        answers = [rng.choice([None, "a", "b", "x", "y", "z"]) for _ in range(n)]
        for k in range(1, n + 1):
            shares = []
            for chosen in combinations(answers, k):
                votes = Counter(answer for answer in chosen if answer is not None)
                winners = [answer for answer in votes if votes[answer] == max(votes.values())]
                shares.append(sum(answer in "ab" for answer in winners) / len(winners) if winners else 0.0)
            right = [answer in ("a", "b") for answer in answers]
            assert majority_at_k([answers], [right], k) == pytest.approx([sum(shares) / len(shares)])
