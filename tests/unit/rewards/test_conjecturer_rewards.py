# Tests: rewards/base.py, rewards/binary_band.py, rewards/tent.py, rewards/factory.py, rewards/learnability.py
"""Conjecturer rewards at points derived by hand from seed 001, section 3.2 and table 1."""

import numpy as np
import pytest

from countdown_selfplay.rewards import RewardContext, make_conjecturer_reward

P = np.array([0.0, 0.125, 0.375, 0.4, 0.5, 0.75, 0.8, 1.0])
CTX = RewardContext(attempts=8)


def test_rewards_at_points_by_hand():
    # 0.125: 1 - 2.5 * 0.275 = 0.3125; 0.375: 1 - 0.0625; 0.5: 0.75; 0.75: 0.125; zero at 0 and from 0.8 on
    expected = [0.0, 0.3125, 0.9375, 1.0, 0.75, 0.125, 0.0, 0.0]
    assert make_conjecturer_reward("tent")(P, CTX) == pytest.approx(expected)
    aggressive = make_conjecturer_reward("binary_band", {"low": 0.05, "high": 0.75})
    assert aggressive(P, CTX).tolist() == [0, 1, 1, 1, 1, 1, 0, 0]
    assert make_conjecturer_reward("binary_band")(np.array([0.05, 0.049, 0.85, 0.86]), CTX).tolist() == [1, 0, 1, 0]
    assert make_conjecturer_reward("learnability")(np.array([0, 0.25, 0.5, 1]), CTX).tolist() == [0, 0.75, 1, 0]
