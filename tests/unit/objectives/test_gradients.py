# Tests: objectives/base.py
"""The expectation of each estimator against autograd on a policy over three answers, all outcomes listed."""

from itertools import product

import pytest
import torch

from countdown_selfplay.objectives import make_objective

from .toys import loss_inputs

THETA = [0.3, -0.2, 0.5]
REWARDS = torch.tensor([1.0, 0.1, 0.0], dtype=torch.float64)


def expected_gradient(objective, correct_counts=True, selects=False):
    """- E[gradient of the loss] over all outcomes of two samples of one token, weighted by their chance. `selects`:
    rewards are bits, and what the objective does not select is masked."""
    theta = torch.tensor(THETA, dtype=torch.float64, requires_grad=True)
    total = torch.zeros(3, dtype=torch.float64)
    for outcome in product(range(3), repeat=2):
        logps = torch.log_softmax(theta, 0)[list(outcome)]
        rewards = REWARDS[list(outcome)][None]
        correct = (rewards == 1.0).double() if correct_counts else None
        credit = objective.advantages(correct if selects else rewards, correct)[0]
        mask = objective.select(correct, correct)[0].double()[:, None] if selects else None
        inputs = loss_inputs(logps.detach()[:, None], credit, mask, group=2)
        inputs = type(inputs)(**{**vars(inputs), "logps_BT": logps[:, None]})
        total -= logps.sum().exp().detach() * torch.autograd.grad(objective.loss(inputs).loss, theta)[0]
    return total


def gradient_of(value):
    theta = torch.tensor(THETA, dtype=torch.float64, requires_grad=True)
    return torch.autograd.grad(value(torch.softmax(theta, 0)), theta)[0]


@pytest.mark.parametrize("name", ["rloo", "reinforce"])
def test_rloo_and_reinforce_follow_the_gradient_of_the_expected_reward(name):
    wanted = gradient_of(lambda p: (p * REWARDS).sum())
    assert torch.allclose(expected_gradient(make_objective(name)), wanted, atol=1e-12)


def test_a_fixed_baseline_changes_nothing_and_dr_grpo_and_reinforce_half_follow_their_own():
    objective = make_objective("rae")
    objective.load_state_dict({"baseline": 0.37})
    wanted = gradient_of(lambda p: (p * REWARDS).sum())
    assert torch.allclose(expected_gradient(objective, False), wanted, atol=1e-12)
    # centring by a mean that holds the sample itself shrinks the gradient by (G - 1) / G; the cap of 8 tokens by 8
    wanted = gradient_of(lambda p: (p * REWARDS).sum()) / 2 / 8
    assert torch.allclose(expected_gradient(make_objective("dr_grpo"), False), wanted, atol=1e-12)
    # v log pi on pairs with s <= 1/2: of two samples exactly one is right, chance 2p(1-p), credit 1 to that one, mean
    # over two: the expectation of grad log p over it is p (1 - p) grad log p
    p = torch.softmax(torch.tensor(THETA, dtype=torch.float64), 0)[0]
    wanted = p * (1 - p) * gradient_of(lambda q: q[0].log())
    found = expected_gradient(make_objective("reinforce_half"), selects=True)
    assert torch.allclose(found, wanted, atol=1e-12)
