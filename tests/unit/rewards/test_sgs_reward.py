# Tests: rewards/base.py, rewards/sgs.py
"""Seed 003: R_solve x R_guide (section 3), min-max normalised (appendix G.5), and the rule against starvation."""

import numpy as np
import pytest

from countdown_selfplay.rewards import RewardContext, make_conjecturer_reward
from countdown_selfplay.rewards.sgs import SGS

REWARD = make_conjecturer_reward("sgs")
TEN = np.array([0.0, 0.0, 0.125, 0.25, 0.375, 0.5, 0.5, 0.625, 0.75, 0.875])
BETWEEN = {"top_of": "between"}
FOUR_OF_TEN = np.array([0.0] * 6 + [0.125, 0.25, 0.375, 0.5])


def guided(*scores):
    return RewardContext(guide_P=np.array(scores, dtype=float))


@pytest.mark.parametrize(("given", "rates", "wanted"), [
    # the three highest of ten are .625, .75, .875; the two unsolved earn 0; the rest 1 - p
    ({}, TEN, [0, 0, 0.875, 0.75, 0.625, 0.5, 0.5, 0, 0, 0]),
    # four of ten share the highest rate: more than 30%, so all four stay; three of ten do: dropped
    ({}, [0.25] * 6 + [0.5] * 4, [0.75] * 6 + [0.5] * 4), ({}, [0.25] * 7 + [0.5] * 3, [0.75] * 7 + [0] * 3),
    # of ten problems the three highest go; of the four rates between, those above the one at place int(.7 x 4) = 2
    ({}, FOUR_OF_TEN, [0] * 6 + [0.875, 0, 0, 0]), (BETWEEN, FOUR_OF_TEN, [0] * 6 + [0.875, 0.75, 0.625, 0]),
    # solved ones are no part of the base, and earn nothing themselves
    (BETWEEN, [0.5, 1.0, 1.0, 1.0], [0.5, 0, 0, 0]),
])  # fmt: skip
def test_r_solve_drops_the_unsolved_and_the_top_30_percent_together_or_not_at_all(given, rates, wanted):
    assert SGS(**given).solve_reward(np.array(rates)).tolist() == wanted


def test_of_few_rates_as_many_stay_as_in_the_program_and_without_a_guide_rewards_are_stretched_to_0_1():
    # of 2, 3, 5 and 8 rates 2, 3, 4 and 6 stay: places 1, 2, 3 and 5 are the last (SGS's program)
    kept = {n: int((SGS(**BETWEEN).solve_reward(np.arange(1, n + 1) / 16) > 0).sum()) for n in (1, 2, 3, 5, 8)}
    assert kept == {1: 1, 2: 2, 3: 3, 5: 4, 8: 6}
    # greatest .875, least 0
    assert REWARD(TEN, None) == pytest.approx(np.array([0, 0, 0.875, 0.75, 0.625, 0.5, 0.5, 0, 0, 0]) / 0.875)
    assert REWARD(TEN, guided(*[np.nan] * 10)).tolist() == REWARD(TEN, None).tolist()


def test_the_guide_multiplies_and_a_failed_review_counts_as_the_mean_of_the_scores():
    # R_solve .75, .5, .75 (one of three is more than 30%); x 8, 4, 2 = 6, 2, 1.5; (r - 1.5) / 4.5
    assert REWARD(np.array([0.25, 0.5, 0.25]), guided(8, 4, 2)) == pytest.approx([1, 1 / 9, 0])
    # .5 is the highest of four, 25%: dropped. Scores 8, 4, 2, mean 14/3. Products .75 x 8 = 6, 0, .75 x 2 = 1.5 and
    # .5 x 14/3 = 7/3 for the problem without a review; the scale of the guide does not matter
    p = np.array([0.25, 0.625, 0.25, 0.5])
    for scale in (1, 0.125):
        found = REWARD(p, guided(8 * scale, 4 * scale, 2 * scale, np.nan))
        assert found == pytest.approx([1, 0, 1.5 / 6, 7 / 18])
    # p = [0, .5, .25, .125 x 7] with the first review failed: it earned .778 when the mean was taken of the rewards
    p = np.array([0, 0.5, 0.25, *[0.125] * 7])
    for score in (np.nan, 0, 8):
        assert REWARD(p, guided(score, 8, *[4] * 8))[0] == 0
    assert SGS().parts(np.array([0.25, 0.25]), guided(-3, 2))["r_guide"].tolist() == [0, 2]


@pytest.mark.parametrize("rates", [[0.0] * 4, [1.0] * 4, [0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.5]])
def test_as_in_the_paper_a_batch_without_a_rate_that_earns_starves(rates):
    """Section 4.5: problems with a solve rate of 0 or 1 earn 0. The last batch has its only one in the top 30%."""
    starving = SGS(starved="paper")
    assert starving(np.array(rates)).tolist() == [0] * len(rates)
    assert starving(np.array(rates), guided(*[5] * len(rates))).tolist() == [0] * len(rates)


def test_equal_rewards_are_1_and_a_batch_that_would_starve_prefers_the_solved_or_the_guide():
    assert SGS(starved="paper")(np.full(4, 0.25)).tolist() == [1] * 4
    assert SGS(starved="paper")(np.array([0.25, 0.5, 0.25]), guided(0, 0, 0)).tolist() == [0] * 3
    for p in ([0.5] * 4, [0.0] * 4, [1.0] * 4, [0.375]):
        assert REWARD(np.array(p), None).tolist() == [1] * len(p)
    assert REWARD(np.array([0.25, 0.5]), guided(0, 0)).tolist() == [1, 1]
    # The published code gives the conjecturer no data here.
    assert REWARD(np.array([0.0, 1.0, 0.0, 1.0]), None).tolist() == [0, 1, 0, 1]
    assert REWARD(np.zeros(3), guided(8, 4, 0)).tolist() == [1, 0.5, 0]
    # one of four, 25%, is in the top 30%: R_solve would be 0 for all; it is let in again
    assert REWARD(np.array([0.0, 0.0, 0.0, 0.5]), None).tolist() == [0, 0, 0, 1]
