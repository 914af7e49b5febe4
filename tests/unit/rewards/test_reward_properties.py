# Tests: rewards/base.py, rewards/solve_rate.py, rewards/__init__.py
"""Rewards at points by hand, and properties of every registered one on rounds of random problems and rates."""

import numpy as np
import pytest
from tests.installed import here

from countdown_selfplay.countdown import generate_problems
from countdown_selfplay.rewards import CONJECTURER_REWARDS, RewardContext, checked_rewards, make_conjecturer_reward

PROBLEMS = generate_problems(24, seed=7)
NEEDED = {
    "sum": {"terms": [{"name": name, "weight": 0.5} for name in ("sgs", "difficulty_diversity")]},
    "product": {"factors": ["learning_progress", "difficulty_diversity"]},
    "clip": {"of": {"name": "sgs", "kwargs": {"top_of": "between"}}, "low": -0.1, "high": 0.5},
}
NAMES = here(CONJECTURER_REWARDS)


def reward(name):
    return make_conjecturer_reward(name, NEEDED.get(name))


def round_of(size, seed):
    """Rates of 8 attempts, some problems alike, half-known guide and provers, an archive of other problems."""
    draw = np.random.default_rng(seed)
    chosen = draw.choice(len(PROBLEMS), size, replace=False)
    provers = draw.integers(0, 9, (3, size)) / 8
    provers[draw.random(provers.shape) < 0.2] = np.nan
    guide = np.where(draw.random(size) < 0.3, np.nan, draw.random(size))
    archive = tuple(PROBLEMS[i].key for i in range(len(PROBLEMS)) if i % 3)
    problems = tuple(PROBLEMS[i] for i in chosen)
    return draw.integers(0, 9, size) / 8, dict(
        attempts=8, problems=problems, guide_P=guide, prover_rates_MP=provers, archive=archive,
        recent_rates=(0.2, 0.9), progress_P=draw.normal(0, 0.1, size),
    )  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_rewards_follow_their_problems_whatever_the_order(name):
    for seed in range(4):
        rates, known = round_of(12, seed)
        order = np.random.default_rng(seed).permutation(12)
        moved = known | dict(
            problems=tuple(known["problems"][i] for i in order), guide_P=known["guide_P"][order],
            prover_rates_MP=known["prover_rates_MP"][:, order], progress_P=known["progress_P"][order],
        )  # fmt: skip
        straight = checked_rewards(reward(name), rates, RewardContext(**known))
        found = checked_rewards(reward(name), rates[order], RewardContext(**moved))
        np.testing.assert_allclose(found, straight[order], atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_reward_is_finite_on_empty_and_degenerate_rounds_and_changes_nothing_that_it_is_given(name):
    rates, known = round_of(0, 0)
    assert checked_rewards(reward(name), rates, RewardContext(**known)).shape == (0,)
    assert checked_rewards(reward(name), rates, RewardContext()).shape == (0,)
    for size in (1, 2, 7):
        _, known = round_of(size, size)
        for rates in (np.zeros(size), np.ones(size), np.full(size, 0.5), np.arange(size) % 2.0):
            for ctx in (RewardContext(**known), RewardContext(), RewardContext(attempts=1)):
                checked_rewards(reward(name), rates, ctx)
            unknown = known | dict(guide_P=np.full(size, np.nan), prover_rates_MP=np.full((2, size), np.nan))
            checked_rewards(reward(name), rates, RewardContext(**unknown))
    rates, known = round_of(9, 3)
    copies = {key: np.array(value, copy=True) for key, value in known.items() if isinstance(value, np.ndarray)}
    before = rates.copy()
    reward(name)(rates, RewardContext(**known))
    assert np.array_equal(before, rates)
    assert all(np.array_equal(copies[key], known[key], equal_nan=True) for key in copies)


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
