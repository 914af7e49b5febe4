# Tests: statistics/pass_at_k.py
"""pass@k against hand-derived fractions and against counting every subset."""

from itertools import combinations

import numpy as np
import pytest

from countdown_selfplay.evaluation import pass_at_k, pass_at_k_array


@pytest.mark.parametrize(("n", "c", "k", "expected"), [
    (16, 3, 4, 17 / 28),  # C(13,4)/C(16,4) = 715/1820 = 11/28
    (16, 8, 2, 23 / 30),  # C(8,2)/C(16,2) = 28/120 = 7/30
    (10, 3, 5, 11 / 12),  # C(7,5)/C(10,5) = 21/252 = 1/12
    (16, 0, 16, 0.0),
    (16, 1, 16, 1.0),
    (1, 1, 1, 1.0),
    (7, 5, 3, 1.0),  # only two wrong answers: three cannot all be wrong
])  # fmt: skip
def test_pass_at_k_is_the_exact_fraction(n, c, k, expected):
    assert pass_at_k(n, c, k) == expected


def test_pass_at_k_is_the_share_of_subsets_with_a_correct_answer():
    n = 6
    for c in range(n + 1):
        for k in range(1, n + 1):
            subsets = list(combinations([True] * c + [False] * (n - c), k))
            assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, subsets)) / len(subsets), abs=1e-15)


def test_pass_at_k_stays_exact_where_factorials_overflow_floats():
    # C(1999,1000)/C(2000,1000) = 1000/2000
    assert pass_at_k(2000, 1, 1000) == 0.5


def test_the_array_has_one_value_per_problem_in_order():
    assert pass_at_k_array([3, 0, 16], 16, 4).tolist() == [17 / 28, 0.0, 1.0]
    assert pass_at_k_array(np.array([8], dtype=np.uint8), 16, 2).tolist() == [23 / 30]
