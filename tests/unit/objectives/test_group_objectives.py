# Tests: objectives/cispo.py, objectives/reinforce.py, objectives/reinforce_half.py, objectives/maxrl.py
"""GRPO, Dr. GRPO and CISPO: numbers derived by hand beside the assertions."""

import math

import pytest
import torch

from countdown_selfplay.objectives import make_objective

from .toys import loss_inputs

GROUP = ["grpo", "dr_grpo", "cispo"]


def test_credit_is_centred_and_but_for_dr_grpo_scaled_by_the_sample_deviation():
    # (1, 0, 0, 0): mean 1/4, squares 9/16 + 3/16 = 3/4, sample variance 1/4, deviation 1/2
    rewards = torch.tensor([[1.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    wanted = [0.75 / 0.5001, *[-0.25 / 0.5001] * 3]
    for name in ("grpo", "cispo"):
        assert make_objective(name).advantages(rewards)[0].tolist() == pytest.approx(wanted)
    # seven answers of the right form and one of none, all wrong: it was -2.47 for the last and +.35 for the others
    format_alone, bits = torch.tensor([[*[0.1] * 7, 0.0]]), torch.tensor([[0.0] * 8])
    assert not make_objective("cispo").advantages(format_alone, bits).any()
    # (1, 0, 0, 0) as above, whatever was added to the reward
    found = make_objective("cispo").advantages(torch.tensor([[0.3, 0.9, 0.1, 0.0]]), torch.tensor([[1.0, 0, 0, 0]]))
    assert found[0].tolist() == pytest.approx([0.75 / 0.5001, *[-0.25 / 0.5001] * 3])
    rewards = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
    assert make_objective("dr_grpo").advantages(rewards)[0].tolist() == pytest.approx([0.75, -0.25, -0.25, -0.25])


@pytest.mark.parametrize("name", GROUP)
def test_equal_single_and_absent_rewards_give_exactly_no_credit_and_are_in_no_mean(name):
    rewards = torch.tensor([[0.1, 0.1, 0.1], [1.0, math.nan, math.nan], [math.nan] * 3])
    assert torch.equal(make_objective(name).advantages(rewards), torch.zeros(3, 3))
    # (1, nan, 0): mean 1/2 of the two known ones, deviation sqrt(1/2)
    got = make_objective(name).advantages(torch.tensor([[1.0, math.nan, 0.0]], dtype=torch.float64))[0].tolist()
    wanted = 0.5 if name == "dr_grpo" else 0.5 / (math.sqrt(0.5) + 1e-4)
    assert got == pytest.approx([wanted, 0.0, -wanted])


def test_losses_are_means_over_tokens_completions_or_groups():
    # on-policy: every ratio is 1, so the loss is -(1/2) (2 * 2/2 + (-1) * 1/1) = -(2 - 1) / 2
    loss = make_objective("grpo").loss(loss_inputs([[-1.0, -2.0], [-0.5, -9.0]], [2.0, -1.0], [[1, 1], [1, 0]])).loss
    assert float(loss) == pytest.approx(-0.5)
    # -(2 + 2 - 1) / (2 completions x 8 tokens)
    got = make_objective("dr_grpo").loss(loss_inputs([[-1.0, -2.0], [-0.5, -9.0]], [2.0, -1.0], [[1, 1], [1, 0]]))
    assert float(got.loss) == pytest.approx(-3 / 16)
    # group 1: 3 tokens, credit 1 on the first completion (2 tokens): 3 / 3; group 2: 1 token: 5 / 1; two groups
    logps = [[-1.0, -2.0], [-4.0, 0.0], [-5.0, 0.0], [0.0, 0.0]]
    mask = [[1, 1], [1, 0], [1, 0], [0, 0]]
    got = make_objective("cispo").loss(loss_inputs(logps, [1.0, 0.0, 1.0, 0.0], mask, group=2))
    assert float(got.loss) == pytest.approx((1.0 + 5.0) / 2)


def test_grpo_clips_what_would_go_further_and_cispo_the_weight():
    # ratios e^1 and e^-1: with A > 0 the first is cut to 1.2, the second stays; with A < 0 the other way round
    logps, behavior = [[-1.0, -2.0]], [[-2.0, -1.0]]
    up = make_objective("grpo").loss(loss_inputs(logps, [1.0], behavior=behavior))
    assert float(up.loss) == pytest.approx(-(1.2 + math.exp(-1)) / 2)
    assert float(up.sums["clipped_rate"]) == pytest.approx(0.5)
    down = make_objective("grpo").loss(loss_inputs(logps, [-1.0], behavior=behavior))
    assert float(down.loss) == pytest.approx((math.e + 0.8) / 2)
    # ratios e^2 = 7.39 -> 4 and e^-1 = .368; loss = -(4 * -1 + .368 * -2) / 2 tokens; the gradient of each log-prob is
    # minus its weight / 2
    inputs = loss_inputs([[-1.0, -2.0]], [1.0], behavior=[[-3.0, -1.0]])
    inputs.logps_BT.requires_grad_(True)
    output = make_objective("cispo").loss(inputs)
    assert output.loss.item() == pytest.approx((4 + 2 * math.exp(-1)) / 2)
    gradient = torch.autograd.grad(output.loss, inputs.logps_BT)[0][0]
    assert gradient.tolist() == pytest.approx([-2.0, -math.exp(-1) / 2])


@pytest.mark.parametrize(
    "name", [*GROUP, "rloo", "reinforce_half", "rest", "expert_iteration", "rae", "pass_at_k", "maxrl"]
)
def test_completions_without_a_token_and_empty_selections_give_a_finite_zero(name):
    inputs = loss_inputs(torch.zeros(2, 3), [1.0, 1.0], mask=torch.zeros(2, 3), group=2)
    inputs.logps_BT.requires_grad_(True)
    output = make_objective(name).loss(inputs)
    assert float(output.loss) == 0.0
    assert all(math.isfinite(float(value)) for value in output.sums.values())
    assert torch.equal(torch.autograd.grad(output.loss, inputs.logps_BT)[0], torch.zeros(2, 3, dtype=torch.float64))
