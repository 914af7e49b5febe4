# Tests: statistics/pass_at_k.py
"""pass@k against hand-derived fractions and against counting every subset."""

from itertools import combinations

import numpy as np
import pytest

from countdown_selfplay.evaluation import pass_at_k, pass_at_k_array


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
