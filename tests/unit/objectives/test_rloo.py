# Tests: objectives/rloo.py, objectives/importance.py
"""Leave-one-out credit and the clamped sequence loss: numbers derived by hand beside the assertions."""

import math

import pytest
import torch

from countdown_selfplay.objectives import make_objective
from countdown_selfplay.objectives.base import LossInputs
from countdown_selfplay.objectives.importance import sequence_weight


def inputs(logps, advantages, mask=None, behavior=None, sequences=None):
    logps = torch.as_tensor(logps, dtype=torch.float64)
    mask = torch.ones_like(logps) if mask is None else torch.as_tensor(mask, dtype=torch.float64)
    behavior = logps.detach() if behavior is None else torch.as_tensor(behavior, dtype=torch.float64)
    return LossInputs(
        logps,
        behavior,
        torch.as_tensor(advantages, dtype=torch.float64),
        mask,
        sequences or len(logps),
        float(mask.sum()),
    )


def test_the_advantage_is_the_reward_minus_the_mean_of_the_others():
    # group (1, 0, 0.1): 1 - 0.05, 0 - 0.55, 0.1 - 0.5
    advantages = make_objective("rloo").advantages(torch.tensor([[1.0, 0.0, 0.1]]), torch.zeros(1, 3))
    assert advantages[0].tolist() == pytest.approx([0.95, -0.55, -0.4])


def test_equal_rewards_give_exactly_no_credit():
    # 0.1 is not a binary fraction: the mean of seven of eight is off by 7e-9 in float32
    for value in (0.5, 0.1, 0.05):
        for group in (3, 8, 16):
            rewards = torch.full((2, group), value)
            assert torch.equal(make_objective("rloo").advantages(rewards, rewards), torch.zeros(2, group))
            shaped = make_objective("maxrl", {"shaped": True}).advantages(rewards, None)
            assert torch.equal(shaped, torch.zeros(2, group))


def test_a_sample_without_reward_gets_no_credit_and_is_in_no_baseline():
    # (1, nan, 0): the two known ones are each other's baseline; without the nan rule 1 would get 1 - 0 / 2 = 1 as
    # well, so use (1, nan, 0, 0): 1 - 0 = 1, 0 - 0.5, 0 - 0.5; a nan counted as 0 would give 0 - 1/3.
    rewards = torch.tensor([[1.0, math.nan, 0.0, 0.0]])
    advantages = make_objective("rloo").advantages(rewards, torch.zeros(1, 4))
    assert advantages[0].tolist() == pytest.approx([1.0, 0.0, -0.5, -0.5])


def test_a_single_known_reward_gives_no_credit():
    advantages = make_objective("rloo").advantages(torch.tensor([[1.0, math.nan]]), torch.zeros(1, 2))
    assert torch.equal(advantages, torch.zeros(1, 2))


def test_reinforce_credits_the_reward_itself():
    advantages = make_objective("reinforce").advantages(torch.tensor([[1.0, 0.1, math.nan]]), torch.zeros(1, 3))
    assert advantages[0].tolist() == pytest.approx([1.0, 0.1, 0.0])


def test_the_loss_is_minus_credit_times_the_sum_of_log_probs_over_sequences():
    # -(2 * (-1 - 2) + (-1) * (-0.5)) / 2 = -(-6 + 0.5) / 2 = 2.75; the masked token (-9) does not count
    loss = make_objective("rloo").loss(inputs([[-1.0, -2.0], [-0.5, -9.0]], [2.0, -1.0], mask=[[1, 1], [1, 0]])).loss
    assert float(loss) == pytest.approx(2.75)


def test_the_gradient_on_policy_is_minus_credit_over_sequences_at_each_token():
    logps = torch.tensor([[-1.0, -2.0], [-0.5, -9.0]], dtype=torch.float64, requires_grad=True)
    make_objective("rloo").loss(
        inputs(logps, [2.0, -1.0], mask=[[1, 1], [1, 0]], behavior=logps.detach())
    ).loss.backward()
    assert logps.grad.tolist() == [[-1.0, -1.0], [0.5, 0.0]]


def test_the_importance_weight_is_clamped_per_sequence_and_carries_no_gradient():
    # log ratios: sum (0.2 + 0.3) = 0.5 -> e^0.5 = 1.6487 stays; sum (1 + 1) = 2 -> e^2 = 7.389 -> 2; -3 -> 0.0498 ->
    # 0.5
    behavior = torch.zeros(3, 2, dtype=torch.float64)
    logps = torch.tensor([[0.2, 0.3], [1.0, 1.0], [-1.0, -2.0]], dtype=torch.float64, requires_grad=True)
    weight, raw = sequence_weight(logps, behavior, torch.ones(3, 2, dtype=torch.float64), 0.5, 2.0)
    assert weight.tolist() == pytest.approx([math.exp(0.5), 2.0, 0.5])
    assert raw.tolist() == pytest.approx([math.exp(0.5), math.exp(2), math.exp(-3)])
    assert not weight.requires_grad


def test_the_loss_does_not_depend_on_how_the_round_is_cut_into_micro_batches():
    objective = make_objective("rloo")
    logps, advantages = torch.randn(6, 3, dtype=torch.float64), torch.randn(6, dtype=torch.float64)
    whole = objective.loss(inputs(logps, advantages, sequences=6)).loss
    parts = sum(objective.loss(inputs(logps[i : i + 2], advantages[i : i + 2], sequences=6)).loss for i in (0, 2, 4))
    assert float(whole) == pytest.approx(float(parts))


def test_the_loss_has_the_gradient_of_stock_trl_rloo():
    """TRL's RLOO on-policy: -(exp(s - s.detach()) * A).mean() with s the sequence log-prob (rloo_trainer.py)."""
    logps = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    advantages, mask = torch.randn(5, dtype=torch.float64), (torch.rand(5, 4) > 0.3).double()
    make_objective("rloo").loss(inputs(logps, advantages, mask=mask, behavior=logps.detach())).loss.backward()
    ours, logps.grad = logps.grad.clone(), None
    sequence = (logps * mask).sum(1)
    (-(torch.exp(sequence - sequence.detach()) * advantages).mean()).backward()
    assert torch.allclose(ours, logps.grad, atol=1e-12)
