# Tests: objectives/rloo.py, objectives/base.py
"""Leave-one-out credit and the clamped sequence loss: numbers derived by hand beside the assertions."""

import math
from dataclasses import replace

import pytest
import torch

from countdown_selfplay.objectives import make_objective
from countdown_selfplay.objectives.base import sequence_weight

from .toys import loss_inputs


def test_credit_is_the_reward_minus_the_mean_of_the_others_exactly_0_where_they_are_equal():
    # group (1, 0, 0.1): 1 - 0.05, 0 - 0.55, 0.1 - 0.5
    advantages = make_objective("rloo").advantages(torch.tensor([[1.0, 0.0, 0.1]]), torch.zeros(1, 3))
    assert advantages[0].tolist() == pytest.approx([0.95, -0.55, -0.4])
    # (1, nan, 0): the two known ones are each other's baseline; without the nan rule 1 would get 1 - 0 / 2 = 1 as
    # well, so use (1, nan, 0, 0): 1 - 0 = 1, 0 - 0.5, 0 - 0.5; a nan counted as 0 would give 0 - 1/3.
    rewards = torch.tensor([[1.0, math.nan, 0.0, 0.0]])
    advantages = make_objective("rloo").advantages(rewards, torch.zeros(1, 4))
    assert advantages[0].tolist() == pytest.approx([1.0, 0.0, -0.5, -0.5])
    advantages = make_objective("rloo").advantages(torch.tensor([[1.0, math.nan]]), torch.zeros(1, 2))
    assert torch.equal(advantages, torch.zeros(1, 2))
    advantages = make_objective("reinforce").advantages(torch.tensor([[1.0, 0.1, math.nan]]), torch.zeros(1, 3))
    assert advantages[0].tolist() == pytest.approx([1.0, 0.1, 0.0])
    # 0.1 is not a binary fraction: the mean of seven of eight is off by 7e-9 in float32
    for value in (0.5, 0.1, 0.05):
        for group in (3, 8, 16):
            rewards = torch.full((2, group), value)
            assert torch.equal(make_objective("rloo").advantages(rewards, rewards), torch.zeros(2, group))
            shaped = make_objective("maxrl", {"shaped": True}).advantages(rewards, None)
            assert torch.equal(shaped, torch.zeros(2, group))


def test_the_loss_is_minus_credit_times_the_sum_of_log_probs_in_any_cut_and_so_is_its_gradient():
    # -(2 * (-1 - 2) + (-1) * (-0.5)) / 2 = -(-6 + 0.5) / 2 = 2.75; the masked token (-9) does not count
    loss = make_objective("rloo").loss(loss_inputs([[-1.0, -2.0], [-0.5, -9.0]], [2.0, -1.0], [[1, 1], [1, 0]])).loss
    assert float(loss) == pytest.approx(2.75)
    logps = torch.tensor([[-1.0, -2.0], [-0.5, -9.0]], dtype=torch.float64, requires_grad=True)
    make_objective("rloo").loss(loss_inputs(logps, [2.0, -1.0], [[1, 1], [1, 0]])).loss.backward()
    assert logps.grad.tolist() == [[-1.0, -1.0], [0.5, 0.0]]
    objective = make_objective("rloo")
    logps, advantages = torch.randn(6, 3, dtype=torch.float64), torch.randn(6, dtype=torch.float64)
    whole = objective.loss(loss_inputs(logps, advantages)).loss
    cut = [loss_inputs(logps[i : i + 2], advantages[i : i + 2]) for i in (0, 2, 4)]
    parts = sum(objective.loss(replace(part, sequences=6.0)).loss for part in cut)
    assert float(whole) == pytest.approx(float(parts))


def test_the_importance_weight_is_clamped_per_sequence_and_carries_no_gradient():
    # log ratios: sum (0.2 + 0.3) = 0.5 -> e^0.5 = 1.6487 stays; sum (1 + 1) = 2 -> e^2 = 7.389 -> 2; -3 -> 0.0498 ->
    # 0.5
    behavior = torch.zeros(3, 2, dtype=torch.float64)
    logps = torch.tensor([[0.2, 0.3], [1.0, 1.0], [-1.0, -2.0]], dtype=torch.float64, requires_grad=True)
    weight, raw = sequence_weight(logps, behavior, torch.ones(3, 2, dtype=torch.float64), 0.5, 2.0)
    assert weight.tolist() == pytest.approx([math.exp(0.5), 2.0, 0.5])
    assert raw.tolist() == pytest.approx([math.exp(0.5), math.exp(2), math.exp(-3)])
    assert not weight.requires_grad
    loss = make_objective("rloo").loss(loss_inputs(logps, [1.0, 1.0, 1.0], behavior=behavior)).loss
    assert float(loss) == pytest.approx(-(math.exp(0.5) * 0.5 + 2.0 * 2 - 0.5 * 3) / 3)  # each sum by its weight
