"""Seed 003: R_solve x R_guide (section 3), min-max normalised (appendix G.5), and the rule against starvation."""

import numpy as np
import pytest

from countdown_selfplay.errors import ConfigError, RewardError
from countdown_selfplay.rewards import RewardContext, make_conjecturer_reward
from countdown_selfplay.rewards.sgs import SGS

REWARD = make_conjecturer_reward("sgs")
TEN = np.array([0.0, 0.0, 0.125, 0.25, 0.375, 0.5, 0.5, 0.625, 0.75, 0.875])


def guided(*scores):
    return RewardContext(guide_P=np.array(scores, dtype=float))


def test_r_solve_drops_the_unsolved_and_the_top_30_percent():
    # the three highest of ten are .625, .75, .875; the two unsolved earn 0; the rest 1 - p
    assert SGS().solve_reward(TEN).tolist() == [0, 0, 0.875, 0.75, 0.625, 0.5, 0.5, 0, 0, 0]


def test_equal_rates_are_dropped_together_or_not_at_all():
    # four of ten share the highest rate: more than 30%, so all four stay
    assert SGS().solve_reward(np.array([0.25] * 6 + [0.5] * 4)).tolist() == [0.75] * 6 + [0.5] * 4
    # three of ten do: dropped
    assert SGS().solve_reward(np.array([0.25] * 7 + [0.5] * 3)).tolist() == [0.75] * 7 + [0] * 3


def test_without_a_guide_rewards_are_r_solve_stretched_to_0_1():
    # greatest .875, least 0
    assert REWARD(TEN, None) == pytest.approx(np.array([0, 0, 0.875, 0.75, 0.625, 0.5, 0.5, 0, 0, 0]) / 0.875)


def test_the_guide_multiplies_and_the_result_is_stretched():
    # R_solve .75, .5, .75 (one of three is more than 30%); x 8, 4, 2 = 6, 2, 1.5; (r - 1.5) / 4.5
    assert REWARD(np.array([0.25, 0.5, 0.25]), guided(8, 4, 2)) == pytest.approx([1, 1 / 9, 0])


def test_a_failed_review_earns_the_mean_of_the_reviewed():
    # .5 is the highest of four, 25%: dropped. Reviewed: .75 x 8, 0, .75 x 2 = 6, 0, 1.5 -> 1, 0, 1/4, mean 5/12; the
    # scale of the guide does not matter
    p = np.array([0.25, 0.5, 0.25, 0.0])
    for scale in (1, 0.125):
        found = REWARD(p, guided(8 * scale, 4 * scale, 2 * scale, np.nan))
        assert found == pytest.approx([1, 0, 1 / 4, 5 / 12])


def test_if_every_review_failed_the_guide_is_left_out():
    assert REWARD(TEN, guided(*[np.nan] * 10)).tolist() == REWARD(TEN, None).tolist()


def test_all_equal_rewards_are_1():
    for p in ([0.5] * 4, [0.0] * 4, [1.0] * 4, [0.375]):
        assert REWARD(np.array(p), None).tolist() == [1] * len(p)
    assert REWARD(np.array([0.25, 0.5]), guided(0, 0)).tolist() == [1, 1]


def test_where_no_rate_lies_between_0_and_1_the_solved_are_preferred():
    """The published code gives the conjecturer no data here."""
    assert REWARD(np.array([0.0, 1.0, 0.0, 1.0]), None).tolist() == [0, 1, 0, 1]


def test_if_all_rates_are_equal_the_guide_decides_alone():
    assert REWARD(np.zeros(3), guided(8, 4, 0)).tolist() == [1, 0.5, 0]


def test_the_only_solved_problem_is_not_thrown_out_as_too_easy():
    # one of four, 25%, is in the top 30%: R_solve would be 0 for all; it is let in again
    assert REWARD(np.array([0.0, 0.0, 0.0, 0.5]), None).tolist() == [0, 0, 0, 1]


def test_wrong_arguments_and_scores_are_refused():
    with pytest.raises(ConfigError, match=r"`top_share` \(2\)"):
        make_conjecturer_reward("sgs", {"top_share": 2})
    with pytest.raises(RewardError, match="2 guide scores for 3 solve rates"):
        REWARD(np.zeros(3), guided(1, 2))
