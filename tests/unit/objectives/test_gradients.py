# Tests: objectives/base.py, objectives/pass_at_k.py, objectives/reinforce_half.py, objectives/maxrl.py
"""The expectation of each estimator against autograd on a policy over three answers, all outcomes listed."""

from itertools import combinations, product

import pytest
import torch
from tests.unit.objectives.test_objectives import loss_inputs

from countdown_selfplay.objectives import make_objective

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


def listed_credit(bits, k):
    """k x (mean over the k-subsets with i of "one is correct" - mean over the k-subsets without i)."""
    credits = []
    for i in range(len(bits)):
        others = [j for j in range(len(bits)) if j != i]
        with_i = [max([bits[i], *(bits[j] for j in s)]) for s in combinations(others, k - 1)]
        without = [max(bits[j] for j in s) for s in combinations(others, k)]
        credits.append(k * (sum(with_i) / len(with_i) - sum(without) / len(without)))
    return credits


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_the_credit_equals_that_of_listing_all_subsets(k):
    for bits in product([0, 1], repeat=6):
        correct = torch.tensor([bits], dtype=torch.float64)
        got = make_objective("pass_at_k", {"k": k}).advantages(correct, correct)
        assert got[0].tolist() == pytest.approx(listed_credit(bits, k)), bits


def test_k_1_is_rloo_and_maxrl_gives_each_solved_problem_the_same_weight():
    correct = torch.tensor([[1.0, 0.0, 0.0, 1.0, 0.0]], dtype=torch.float64)
    rloo = make_objective("rloo").advantages(correct)
    assert torch.allclose(make_objective("pass_at_k", {"k": 1}).advantages(correct, correct), rloo)
    for bits in (torch.ones(1, 8), torch.zeros(1, 8)):
        assert torch.equal(make_objective("pass_at_k").advantages(bits, bits), torch.zeros(1, 8))
    # s = 1/4: (1 - 1/4) / (1/4) = 3 and -1; s = 1/2: 1 and -1; s = 0 and s = 1: nothing
    bits = torch.tensor([[1.0, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]])
    wanted = torch.tensor([[3.0, -1, -1, -1], [1, 1, -1, -1], [0, 0, 0, 0], [0, 0, 0, 0]])
    assert torch.allclose(make_objective("maxrl").advantages(bits, bits), wanted)


@pytest.mark.parametrize(("name", "given", "value"), [
    ("pass_at_k", {"k": 2}, lambda fail: 1 - fail**2),
    # log p = - sum (1 - p)^k / k; with G samples the first G - 1 terms: here pass@1 + pass@2 / 2
    ("maxrl", {}, lambda fail: (1 - fail) + (1 - fail**2) / 2),
])  # fmt: skip
def test_the_mean_over_all_outcomes_is_the_gradient_of_pass_at_k_and_of_terms_of_log_p(name, given, value):
    """Three answers, the first is right. n = 3 samples: all 27 outcomes, weighted by chance."""
    theta = torch.tensor(THETA, dtype=torch.float64, requires_grad=True)
    wanted = gradient_of(lambda p: value(1 - p[0]))
    objective, gradient = make_objective(name, given), torch.zeros(3, dtype=torch.float64)
    for outcome in product(range(3), repeat=3):
        logp = torch.log_softmax(theta, 0)[list(outcome)]
        correct = torch.tensor([[float(answer == 0) for answer in outcome]], dtype=torch.float64)
        gain = (objective.advantages(correct, correct)[0] * logp).mean()
        gradient += logp.sum().exp().detach() * torch.autograd.grad(gain, theta)[0]
    assert torch.allclose(gradient, wanted, atol=1e-12)
