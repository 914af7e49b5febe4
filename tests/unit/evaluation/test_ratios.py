# Tests: statistics/bootstrap.py
"""Rates among the answers they apply to: intervals over problems, derived by hand where there are few."""

import pytest

from countdown_selfplay.statistics.bootstrap import Estimate, change_interval, ratio_interval


def test_a_problems_items_are_drawn_together_and_f1_is_a_ratio_too():
    """Two problems, a with 1 of 2 and b with 1 of 1. The draws aa, ab, ba, bb give 1/2, 2/3, 2/3 and 1, each in a
    quarter of the cases: so the 2.5% and 97.5% quantiles are 1/2 and 1."""
    assert ratio_interval([1, 0, 1], [1, 1, 1], ["a", "a", "b"]) == Estimate(2 / 3, 0.5, 1.0)
    found = ratio_interval([1, 0, 0, 1], [1, 1, 0, 1], ["a", "a", "none", "b"])
    assert found == ratio_interval([1, 0, 1], [1, 1, 1], ["a", "a", "b"])
    assert ratio_interval([0, 0], [0, 0], ["a", "b"]) is None and ratio_interval([], [], []) is None
    # 2 true positives, 1 false positive, 1 false negative, each of a problem of its own: 4 of 6. The least draw that
    # is seen in 2.5% of cases has no true positive only with chance (1/2)^4 = 6.25%, so the low end is 0.
    found = ratio_interval([2, 2, 0, 0], [2, 2, 1, 1], "abcd")
    assert found.value == pytest.approx(4 / 6) and found.low == 0 and found.high == 1


def test_the_interval_of_one_rate_or_no_change_is_wilsons_and_of_a_paired_change_the_problems():
    """0 of 4 problems, whatever the number of answers: z^2 / (4 + z^2) with z^2 = 3.8415 is 0.4899."""
    none = ratio_interval([0] * 8, [1] * 8, [0, 0, 1, 1, 2, 2, 3, 3])
    assert (none.value, none.low) == (0, 0) and none.high == pytest.approx(0.4899, abs=1e-4)
    every = ratio_interval([1] * 8, [1] * 8, [0, 0, 1, 1, 2, 2, 3, 3])
    assert (every.value, every.high) == (1, 1) and every.low == pytest.approx(1 - 0.4899, abs=1e-4)
    # 1 of 2 answers on each of 4 problems: at most .4899 of others differ, by .5 at most.
    found = ratio_interval([1, 0] * 4, [1] * 8, [0, 0, 1, 1, 2, 2, 3, 3])
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.5 - 0.24495, 0.5 + 0.24495), abs=1e-4)
    # Changes +1 and 0 of problem a, 0 and 0 of b: mean 1/4; draws aa 1/2, ab 1/4, bb 0.
    found = change_interval([1, 0, 0, 0], ["a", "a", "b", "b"])
    assert (found.difference, found.low, found.high) == (0.25, 0.0, 0.5)
    # Both problems alike: -+ z^2 / (2 + z^2) = 3.841459 / 5.841459 = .657620, for a problem may lose or gain all.
    found = change_interval([0, 0, 0, 0], ["a", "a", "b", "b"])
    assert (found.difference, found.low, found.high) == pytest.approx((0, -0.657620, 0.657620), abs=1e-6)
