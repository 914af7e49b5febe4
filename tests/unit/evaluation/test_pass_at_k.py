# Tests: statistics/pass_at_k.py
"""pass@k against hand-derived fractions and against counting every subset."""

from itertools import combinations

import numpy as np
import pytest

from countdown_selfplay.errors import ConfigError, DataError
from countdown_selfplay.evaluation import pass_at_k, pass_at_k_array


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [
        (16, 3, 4, 17 / 28),  # C(13,4)/C(16,4) = 715/1820 = 11/28
        (16, 8, 2, 23 / 30),  # C(8,2)/C(16,2) = 28/120 = 7/30
        (10, 3, 5, 11 / 12),  # C(7,5)/C(10,5) = 21/252 = 1/12
        (16, 0, 16, 0.0),
        (16, 1, 16, 1.0),
        (1, 1, 1, 1.0),
        (7, 5, 3, 1.0),  # only two wrong answers: three cannot all be wrong
    ],
)
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


@pytest.mark.parametrize(("n", "c", "k"), [(4, 2, 5), (4, 2, 0)])
def test_a_k_outside_1_to_n_is_refused(n, c, k):
    with pytest.raises(ConfigError, match=r"`k` \(\d\) must lie between 1 and .* n = 4"):
        pass_at_k(n, c, k)
    with pytest.raises(ConfigError, match=r"`k` \(\d\)"):
        pass_at_k_array([c], n, k)


def test_more_correct_answers_than_answers_are_refused():
    with pytest.raises(DataError, match="5 correct answers out of 4"):
        pass_at_k(4, 5, 1)
    with pytest.raises(DataError, match="-1 correct answers out of 4"):
        pass_at_k(4, -1, 1)
    with pytest.raises(DataError, match="Problem 1 has 17 correct answers out of n = 16"):
        pass_at_k_array([3, 17], 16, 1)


@pytest.mark.parametrize("counts", [[], [[1, 2]], [0.5], [True]])
def test_counts_that_are_no_list_of_whole_numbers_are_refused(counts):
    with pytest.raises(DataError, match="Counts of correct answers must be"):
        pass_at_k_array(counts, 16, 1)
