"""Credit of a role: the KL penalty comes off the reward, selection and mastery decide who is trained on."""

from types import SimpleNamespace

import pytest
import torch

from countdown_selfplay.games import Rollout
from countdown_selfplay.objectives import make_objective
from countdown_selfplay.training.credit import credit


def context(objective, others=()):
    """One process, groups of two; `others`: what the other processes put into the gather."""
    return SimpleNamespace(
        objectives={"prover": objective},
        settings=SimpleNamespace(prover_group=2, conjecturer_group=2),
        gather=lambda items: [*items, *others],
    )


def rollout(penalty=None):
    return Rollout("prover", [], [], torch.zeros(4), {}, None if penalty is None else torch.tensor(penalty))


def test_the_penalty_is_subtracted_from_the_reward():
    # rewards 1, 0 | 1, 1 minus 0.5, 0 | 0, 0.25: 0.5, 0 | 1, 0.75; leave one out: 0.5, -0.5 | 0.25, -0.25
    rewards = torch.tensor([1.0, 0.0, 1.0, 1.0])
    found = credit(context(make_objective("rloo")), rollout([0.5, 0.0, 0.0, 0.25]), rewards)
    assert found.advantages_B.tolist() == pytest.approx([0.5, -0.5, 0.25, -0.25])
    assert found.mean_reward == pytest.approx(2.25 / 4) and found.selected_B is None


def test_mastered_problems_are_not_trained_on():
    bits = torch.tensor([1.0, 0.0, 1.0, 1.0])
    mastered = torch.tensor([False, False, True, True])
    found = credit(context(make_objective("reinforce_half")), rollout(), bits, bits, mastered)
    assert found.selected_B.tolist() == [True, True, False, False]
    assert found.advantages_B.tolist() == [1.0, 0.0, 0.0, 0.0]


def test_signal_and_mean_reward_are_those_of_all_processes():
    flat = torch.full((4,), 0.1)  # nothing to learn here; another process has something
    found = credit(context(make_objective("rloo"), others=[(True, 4.0, 4)]), rollout(), flat)
    assert found.has_signal and not found.advantages_B.any()
    assert found.mean_reward == pytest.approx((0.4 + 4.0) / 8)
    assert not credit(context(make_objective("rloo")), rollout(), flat).has_signal
