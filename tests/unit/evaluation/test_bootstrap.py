# Tests: statistics/bootstrap.py, statistics/pass_at_k.py
"""Intervals of means, of paired differences, and of rates among the answers to which they apply, by hand; pass@k and
majority@k against fractions by hand and against counting every subset."""

import random
from collections import Counter
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from countdown_selfplay.evaluation import (
    Interval,
    bootstrap_mean,
    majority_at_k,
    paired_bootstrap,
    pass_at_k,
    pass_at_k_array,
)
from countdown_selfplay.statistics.bootstrap import (
    SHARE,
    Estimate,
    alike_ends,
    change_interval,
    ends,
    independent_difference,
    ratio_interval,
    resampled_means,
    share_interval,
    wilson_interval,
)
from tests import real_counts as real


def test_the_public_checkpoints_have_their_known_pass_at_k_and_paired_interval():
    assert pass_at_k_array(real.SFT, 16, 1).mean() == pytest.approx(0.3325, abs=1e-12)
    assert pass_at_k_array(real.IPO, 16, 1).mean() == pytest.approx(0.35875, abs=1e-12)
    assert pass_at_k_array(real.SFT, 16, 4).mean() == pytest.approx(0.627703, abs=5e-7)
    assert pass_at_k_array(real.IPO, 16, 4).mean() == pytest.approx(0.640033, abs=5e-7)
    found = paired_bootstrap(real.SFT, real.IPO, 16)
    assert found.difference == pytest.approx(0.02625, abs=1e-12)
    # Known ends, from another generator: the Monte Carlo error of an end is about 0.0006 at 10,000 resamples.
    assert found.low == pytest.approx(-0.0187, abs=0.002)
    assert found.high == pytest.approx(0.0725, abs=0.002)
    assert found.low < 0 < found.high
    found = paired_bootstrap(real.SFT, real.SFT, 16)  # w = 3.841459 / (50 + 3.841459)
    assert len(real.SFT) == 50 and (found.low, found.high) == pytest.approx((-0.071348, 0.071348), abs=1e-6)


def test_the_pairing_is_kept_and_problems_that_are_all_alike_have_an_interval_with_a_width():
    # b has one or two more correct answers of 16 than a, wherever a is: each resample's mean lies between 1 and 2
    # sixteenths, and all six draws of one kind have a chance of 1/64 < 2.5%, so that the ends lie inside.
    a = [0, 3, 8, 14, 7, 1]
    found = paired_bootstrap(a, [c + 1 + i % 2 for i, c in enumerate(a)], 16)
    assert found.difference == 1.5 / 16 and 1 / 16 < found.low < found.high < 2 / 16
    # z^2 = 3.841459; 64 problems that all differ by 1: w = z^2 / (64 + z^2) = .056624, and one may differ by -1.
    found = paired_bootstrap([0] * 64, [4] * 64, 4)
    assert (found.difference, found.low, found.high) == pytest.approx((1, 1 - 2 * 0.056624, 1), abs=1e-6)
    assert paired_bootstrap([4] * 64, [0] * 64, 4) == Interval(-1, -1, -found.low)
    # 0 of 16 problems differ, so at most w of others do, each by as much as a share can: at 0 and 1 that is Wilson's
    # interval, at .5 it is .5 -+ w / 2. For 90% z^2 = 2.705543, and 0 of 10 is 2.705543 / 12.705543 = .212942.
    for value, low, high in ((0, 0, W_16), (1, 1 - W_16, 1), (0.5, 0.5 - W_16 / 2, 0.5 + W_16 / 2)):
        found = share_interval([value] * 16)
        assert (found.value, found.low, found.high) == pytest.approx((value, low, high), abs=1e-6)
    for right in (0, 16):
        own, wilson = share_interval([right / 16] * 16), wilson_interval(right, 16)
        assert own.to_dict() == pytest.approx(wilson.to_dict(), abs=1e-7)
    assert alike_ends(0.0, 10, SHARE, 0.9)[1] == pytest.approx(0.212942, abs=1e-6)
    assert share_interval([-1.0] * 16) == Estimate(-1, -1, -1)  # a score by rules of one's own: no bounds are known


W_16 = 0.193608
"""z^2 / (16 + z^2) = 3.841459 / 19.841459: the upper end of Wilson's interval for 0 of 16."""


@pytest.mark.parametrize(("right", "k"), [(0, 1), (0, 4), (16, 1), (16, 16)])
def test_two_arms_that_are_all_wrong_or_all_right_differ_by_newcombes_interval(right, k):
    """Newcombe 1998, method 10: the distances of each arm's share to the ends of its Wilson interval, 0 on one side
    and w on the other, added as squares: -+ w. Where no problem is solved, or all are, by both arms, the correlation
    that his paired method takes into account is 0, so that it is the same."""
    found = paired_bootstrap([right] * 16, [right] * 16, 16, k)
    assert (found.difference, found.low, found.high) == pytest.approx((0, -W_16, W_16), abs=1e-6)
    arms = [wilson_interval(right, 16)] * 2
    assert found.to_dict() == pytest.approx(independent_difference(*arms).to_dict(), abs=1e-7)


def test_resampled_means_follow_the_exact_distribution_and_a_large_sample_has_nearly_the_normal_interval():
    # Three values have 27 equally likely resamples; compare the shares of the possible means with 27ths.
    values = np.array([0.0, 1.0, 5.0])
    exact = [sum(draw) / 3 for draw in product(values, repeat=3)]
    means = resampled_means(values, 60_000, seed=3)
    assert means.shape == (60_000,)
    for mean in set(exact):
        share = exact.count(mean) / 27
        assert np.isclose(means, mean).mean() == pytest.approx(share, abs=4 * (share * (1 - share) / 60_000) ** 0.5)
    # 1,000 zeros and ones, half each: standard error sqrt(.25 / 1000) = .01581, half-width 1.96 x that = .0310.
    found = bootstrap_mean([0.0, 1.0] * 500)
    assert found.value == 0.5
    assert (0.5 - found.low, found.high - 0.5) == pytest.approx((0.0310, 0.0310), abs=0.002)
    # At 68.27% the half-width is one standard error.
    values = np.array([0.0, 1.0] * 500)
    low, high = ends(values, resampled_means(values, 10_000, 0), 0.6827)
    assert (high - low) / 2 == pytest.approx(0.01581, abs=0.001)


def test_wilson_intervals_match_hand_computed_ones():
    # 0 of 512: low 0, high z^2 / (n + z^2) = 3.841459 / 515.841459 = 0.0074470; 512 of 512 is its mirror image.
    assert wilson_interval(0, 512).to_dict() == pytest.approx({"value": 0, "low": 0, "high": 0.0074470}, abs=1e-7)
    assert wilson_interval(512, 512).to_dict() == pytest.approx({"value": 1, "low": 0.9925530, "high": 1}, abs=1e-7)
    # 5 of 10: center .5, half-width z / (1 + z^2/10) * sqrt(.025 + z^2/400)
    # = 1.959964 / 1.3841459 * sqrt(.0346036) = .263407
    half = {"value": 0.5, "low": 0.236593, "high": 0.763407}
    assert wilson_interval(5, 10).to_dict() == pytest.approx(half, abs=1e-6)


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


def test_the_interval_of_an_independent_difference_is_newcombes():
    """Newcombe 1998, table II, method 10: 56/70 - 48/80 with .0524 to .3339, 9/10 - 3/10 with .1705 to .8090."""
    for (a, m), (b, n), low, high in (((56, 70), (48, 80), 0.0524, 0.3339), ((9, 10), (3, 10), 0.1705, 0.8090)):
        found = independent_difference(wilson_interval(b, n), wilson_interval(a, m))
        assert found.difference == pytest.approx(a / m - b / n)
        assert (found.low, found.high) == pytest.approx((low, high), abs=5e-5)
    same = independent_difference(Estimate(0.5, 0.4, 0.6), Estimate(0.5, 0.4, 0.6))
    assert same.high == -same.low == pytest.approx(0.1 * 2**0.5)


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
