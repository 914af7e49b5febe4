# Tests: lab/rewards/adaptive_band.py, rewards/base.py
"""Rewards with a centre: distance to the frontier's (seed 000) and a band that tracks the prover (seed 001)."""

import numpy as np
import pytest

from countdown_selfplay.errors import ConfigError
from countdown_selfplay.lab.rewards.adaptive_band import AdaptiveBand
from countdown_selfplay.rewards import RewardContext, make_conjecturer_reward

P = np.array([0.0, 0.1, 0.25, 0.4, 0.55, 0.7, 1.0])


def test_the_frontier_earns_by_the_distance_to_its_centre_and_without_a_floor_outside_too():
    # [0.1, 0.7]: centre 0.4, half width 0.3; 0.25 and 0.55 are half of that away
    assert make_conjecturer_reward("frontier_distance")(P, None) == pytest.approx([0, 0, 0.5, 1, 0.5, 0, 0])
    # p = 0: 1 - 0.4 / 0.3 = -1/3; p = 1: 1 - 0.6 / 0.3 = -1
    reward = make_conjecturer_reward("frontier_distance", {"floor": None})
    assert reward(P, None) == pytest.approx([-1 / 3, 0, 0.5, 1, 0.5, 0, -1])


def test_the_adaptive_band_follows_a_moving_mean_and_is_narrower_where_an_edge_is_near():
    # goal 0.4, width 0.4: the tent of seed 001
    assert AdaptiveBand()(P, RewardContext()) == pytest.approx(make_conjecturer_reward("tent")(P, None))
    # decay 0.9: 0.2, then 0.9 * 0.2 + 0.1 * 0.7 = 0.25; peak 0.4 + 0.5 * (0.25 - 0.4) = 0.325
    band = AdaptiveBand()
    assert band.peak((0.2,)) == pytest.approx(0.3)
    assert band.peak((0.2, 0.7)) == pytest.approx(0.325)
    assert AdaptiveBand(follow=1.0, decay=0.0).peak((0.9, 0.1, 0.6)) == 0.6
    assert AdaptiveBand(follow=1.0).peak((0.0,)) == 0.1 and AdaptiveBand(follow=1.0).peak((1.0,)) == 0.9
    # recent 0.05: peak 0.225, left side 0.225 wide, right side 0.4
    ctx = RewardContext(recent_rates=(0.05,))
    found = AdaptiveBand()(np.array([0.0, 0.1125, 0.225, 0.425, 0.625, 1.0]), ctx)
    assert found == pytest.approx([0, 0.5, 1, 0.5, 0, 0])
    for rate in (0.0, 0.01, 0.5, 0.99, 1.0):
        for band in (AdaptiveBand(), AdaptiveBand(follow=1, low=0.0, high=1.0, width=1.0), AdaptiveBand(width=0.0)):
            assert band(np.array([0.0, 1.0]), RewardContext(recent_rates=(rate,))).tolist() == [0, 0]


@pytest.mark.parametrize(("name", "arguments", "message"), [
    ("frontier_distance", {"low": 0.7, "high": 0.1}, "low=0.7 and high=0.1"),
    ("frontier_distance", {"floor": float("nan")}, r"`floor` \(nan\)"),
    ("adaptive_band", {"decay": 1.5}, r"`decay` \(1.5\) of conjecturer reward 'adaptive_band' .* from 0 to 1"),
    ("adaptive_band", {"low": 0.6, "high": 0.5}, "needs low <= high, got low=0.6"),
    ("tent", {"slope": "steep"}, r"`slope` \('steep'\)"),
    ("tent", {"peak": True}, r"`peak` \(True\)"),
])  # fmt: skip
def test_arguments_that_make_no_sense_are_refused(name, arguments, message):
    with pytest.raises(ConfigError, match=message):
        make_conjecturer_reward(name, arguments)
