# Tests: objectives/rloo.py, objectives/cispo.py, objectives/reinforce.py, objectives/expert_iteration.py
"""Credit, selection, loss and regularizers of every objective: numbers derived by hand beside them."""

import math
from dataclasses import replace
from math import nan

import pytest
import torch

from countdown_selfplay.config import Role
from countdown_selfplay.objectives import make_objective
from countdown_selfplay.objectives.base import LossInputs, kl_k1, kl_k3, sequence_weight
from countdown_selfplay.training.losses import RoleLoss
from countdown_selfplay.training.plan import Counts

GROUP = ["grpo", "dr_grpo", "cispo"]
BITS = [[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
ONE = BITS[0]
# (1, 0, 0, 0): mean 1/4, squares 9/16 + 3/16 = 3/4, sample variance 1/4, deviation 1/2
SCALED = [0.75 / 0.5001, *[-0.25 / 0.5001] * 3]
WEIGHTED = {"tau": 0.0, "rounds": 1, "weighted": True}  # seed 000, section 6
PER_TOKEN = {"rounds": 1, "solved_limit": None, "per_token": True}
TWO, HALF = [[-1.0, -2.0], [-0.5, -9.0]], [[1, 1], [1, 0]]


def loss_inputs(logps, advantages, mask=None, behavior=None, group=1, length_cap=8):
    """The whole round in one micro-batch, double precision; all rows with a trained token are selected."""
    logps = torch.as_tensor(logps, dtype=torch.float64)
    mask = torch.ones_like(logps) if mask is None else torch.as_tensor(mask, dtype=torch.float64)
    behavior = logps.detach() if behavior is None else torch.as_tensor(behavior, dtype=torch.float64)
    tokens = mask.sum(1)
    return LossInputs(
        logps, behavior, torch.as_tensor(advantages, dtype=torch.float64), mask, sequences=float((tokens > 0).sum()),
        tokens=float(tokens.sum()), groups=float(len(logps) // group), length_cap=length_cap,
        group_tokens_B=tokens.reshape(-1, group).sum(1).repeat_interleave(group),
    )  # fmt: skip


@pytest.mark.parametrize(("name", "given", "rewards", "correct", "wanted"), [
    ("rloo", {}, [1.0, 0.0, 0.1], None, [0.95, -0.55, -0.4]),  # 1 - 0.05, 0 - 0.55, 0.1 - 0.5
    ("rloo", {}, [1.0, nan, 0.0, 0.0], None, [1.0, 0.0, -0.5, -0.5]),  # 0 - 0.5; a nan counted as 0: 0 - 1/3
    ("rloo", {}, [1.0, nan], None, [0.0, 0.0]),
    ("reinforce", {}, [1.0, 0.1, nan], None, [1.0, 0.1, 0.0]),
    ("rae", {}, [nan, nan], None, [0.0, 0.0]),
    ("grpo", {}, ONE, None, SCALED), ("cispo", {}, ONE, None, SCALED),
    ("dr_grpo", {}, ONE, None, [0.75, -0.25, -0.25, -0.25]),
    # seven answers of the right form and one of none, all wrong: it was -2.47 for the last and +.35 for the others
    ("cispo", {}, [*[0.1] * 7, 0.0], [0.0] * 8, [0.0] * 8),
    ("cispo", {}, [0.3, 0.9, 0.1, 0.0], ONE, SCALED),  # whatever was added to the reward
    # 0.1 is not a binary fraction: the mean of seven of eight is off by 7e-9 in float32
    *((name, given, [value] * group, None, [0.0] * group) for value in (0.5, 0.1, 0.05) for group in (3, 8, 16)
      for name, given in (("rloo", {}), ("maxrl", {"shaped": True}))),
    *((name, {}, rewards, None, [0.0] * 3) for name in GROUP for rewards in ([0.1] * 3, [1.0, nan, nan], [nan] * 3)),
    # mean 1/2 of the two known ones, deviation sqrt(1/2)
    *((name, {}, [1.0, nan, 0.0], None, [0.5 / scale, 0.0, -0.5 / scale])
      for name, scale in zip(GROUP, (math.sqrt(0.5) + 1e-4, 1.0, math.sqrt(0.5) + 1e-4), strict=True)),
    # solve rates .25, .5, .75, 0: the third is discarded, "at most" keeps .5; the credit is the bit
    *(("reinforce_half", {}, [bit - 0.1 for bit in bits], bits, bits if sum(bits) < 3 else [0.0] * 4)
      for bits in BITS),
    ("reinforce_half", {"most": 1.0}, BITS[2], BITS[2], BITS[2]),
    ("reinforce_half", {}, [0.3, nan], None, [0.3, 0.0]),
    ("rest", WEIGHTED, [1.0, 0.25, nan, -0.5], None, [1.0, 0.25, 0.0, 0.0]),
])  # fmt: skip
def test_credit(name, given, rewards, correct, wanted):
    bits = None if correct is None else torch.tensor([correct])
    found = make_objective(name, given).advantages(torch.tensor([rewards]), bits)[0].tolist()
    assert found == (pytest.approx(wanted) if any(wanted) else wanted)  # exactly 0 where nothing is to be learned


@pytest.mark.parametrize(("name", "given", "rewards", "correct", "wanted"), [
    *(("reinforce_half", {}, bits, bits, [sum(bits) < 3] * 4) for bits in BITS),
    ("reinforce_half", {}, [0.3, nan], None, [True, False]),
    *(("expert_iteration", {}, bits, bits, [bit > 0 for bit in bits]) for bits in BITS),
    ("rest", {"tau": 0.75}, [0.75, 0.7, nan, 1.0], None, [True, False, False, True]),
])  # fmt: skip
def test_selection(name, given, rewards, correct, wanted):
    bits = None if correct is None else torch.tensor([correct])
    found = make_objective(name, given).select(torch.tensor([rewards]), bits)
    assert found.expand(1, len(wanted))[0].tolist() == wanted


@pytest.mark.parametrize(("name", "given", "logps", "credit", "mask", "group", "wanted"), [
    ("rloo", {}, TWO, [2.0, -1.0], HALF, 1, 2.75),  # -(2 * (-1 - 2) + (-1) * (-0.5)) / 2; the masked token is not read
    # on-policy: every ratio is 1, so the loss is -(1/2) (2 * 2/2 + (-1) * 1/1) = -(2 - 1) / 2
    ("grpo", {}, TWO, [2.0, -1.0], HALF, 1, -0.5),
    ("dr_grpo", {}, TWO, [2.0, -1.0], HALF, 1, -3 / 16),  # -(2 + 2 - 1) / (2 completions x 8 tokens)
    # group 1: 3 tokens, credit 1 on the first completion (2 tokens): 3 / 3; group 2: 1 token: 5 / 1; two groups
    ("cispo", {}, [[-1.0, -2.0], [-4.0, 0.0], [-5.0, 0.0], [0.0, 0.0]], [1.0, 0.0, 1.0, 0.0],
     [[1, 1], [1, 0], [1, 0], [0, 0]], 2, (1.0 + 5.0) / 2),
    # -(1/2) (1 * (-1 - 2) / 2 + 0): the wrong sample of a selected problem stays in the mean
    ("reinforce_half", {}, [[-1.0, -2.0], [-0.5, -0.5]], [1.0, 0.0], None, 1, 0.75),
    # by answers (1.5 + .5) / 2; by tokens 3.5 over three
    ("expert_iteration", {}, TWO, [1.0, 1.0], HALF, 1, 1.0),
    ("expert_iteration", PER_TOKEN, TWO, [1.0, 1.0], HALF, 1, 3.5 / 3),
    ("rest", {"tau": 0.75}, TWO, [1.0, 1.0], HALF, 1, 3.5 / 3),
    ("rest", WEIGHTED, TWO, [1.0, 0.25], HALF, 1, 3.125 / 3),  # -(1 * (-1 - 2) + .25 * -.5) / 3 tokens
])  # fmt: skip
def test_losses(name, given, logps, credit, mask, group, wanted):
    found = make_objective(name, given).loss(loss_inputs(logps, credit, mask, group=group))
    assert float(found.loss) == pytest.approx(wanted)


@pytest.mark.parametrize(("name", "given", "rounds", "limit"), [
    ("expert_iteration", {}, 3, 16), ("expert_iteration", {"all_kept": True}, 3, 16),  # seed 003, G.4
    ("expert_iteration", PER_TOKEN, 1, None), ("rest", WEIGHTED, 1, None),
    ("rest", {}, None, None),  # the data set accumulates
])  # fmt: skip
def test_answers_are_kept_for_rounds_and_up_to_a_limit(name, given, rounds, limit):
    replay = make_objective(name, given).replay
    assert (replay.rounds, replay.solved_limit, replay.all_kept) == (rounds, limit, "all_kept" in given)


def test_the_gradient_is_minus_credit_over_sequences_in_any_cut():
    logps = torch.tensor(TWO, dtype=torch.float64, requires_grad=True)
    make_objective("rloo").loss(loss_inputs(logps, [2.0, -1.0], HALF)).loss.backward()
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


def test_the_moving_baseline_is_updated_after_the_round_it_judges_and_not_without_rewards():
    # decay .95; rounds with means .5, .25, 1: baselines 0, .5, .95 * .5 + .05 * .25 = .4875
    objective = make_objective("rae")
    seen = []
    for rewards in ([1.0, 0.0], [0.5, 0.0], [1.0, 1.0]):
        group = torch.tensor([rewards], dtype=torch.float64)
        seen.append(objective.advantages(group)[0].tolist())
        objective.observe(float(group.mean()))
    assert seen == [pytest.approx([1.0, 0.0]), pytest.approx([0.0, -0.5]), pytest.approx([0.5125, 0.5125])]
    assert objective.baseline == pytest.approx(0.95 * 0.4875 + 0.05 * 1.0)
    again = make_objective("rae")
    again.load_state_dict(objective.state_dict())
    assert again.baseline == objective.baseline
    objective = make_objective("rae")
    objective.observe(None)
    assert objective.baseline is None


def settings(**changes):
    values = dict(
        role="prover", objective="rloo", num_generations=2, learning_rate=1e-3, warmup_steps=0,
        max_grad_norm=1.0, beta=0.0, entropy_coef=0.0, temperature=1.0, top_p=1.0, top_k=0, max_completion_length=4,
        kl_in="loss", kl_estimator="k3", kl_reduction="sum",
    )  # fmt: skip
    return Role(**{**values, **changes})


def batch(**extra):
    return {"advantages": torch.tensor([1.0, -1.0]), "completion_mask": torch.tensor([[1, 1], [1, 0]]), **extra}


def test_k3_and_k1_are_unbiased_estimates_of_the_kl_divergence_with_and_without_a_gradient():
    # d = log ref - log pi = -1 - (-2) = 1: e - 2
    assert kl_k3(torch.tensor(-2.0), torch.tensor(-1.0)).item() == pytest.approx(math.e - 2)
    assert kl_k3(torch.tensor(-2.0), torch.tensor(-2.0)).item() == 0.0
    # Exact sum over a 3-token vocabulary: E_pi[k3] = KL(pi || ref).
    pi, ref = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.2, 0.2, 0.6])
    exact = (pi * (pi / ref).log()).sum()
    assert (pi * kl_k3(pi.log(), ref.log())).sum().item() == pytest.approx(exact.item(), abs=1e-6)
    # Exact sum over a 3-token vocabulary: E_pi[k1] = KL(pi || ref) > 0, and E_pi[grad k1] = E_pi[grad log pi] = 0: as
    # a loss term on samples of the policy it anchors nothing on average. k3's gradient does not vanish.
    logits, ref = torch.tensor([0.3, -0.2, 1.0], requires_grad=True), torch.tensor([0.2, 0.2, 0.6]).log()
    logps = logits.log_softmax(0)
    pi = logps.exp().detach()
    assert kl_k1(torch.tensor(-2.0), torch.tensor(-1.0)).item() == -1.0
    exact = (pi * (pi.log() - ref)).sum()
    assert (pi * kl_k1(logps, ref)).sum().item() == pytest.approx(exact.item(), abs=1e-6)
    (k1,) = torch.autograd.grad((pi * kl_k1(logps, ref)).sum(), logits, retain_graph=True)
    (k3,) = torch.autograd.grad((pi * kl_k3(logps, ref)).sum(), logits)
    assert k1.abs().max() < 1e-6 and k3.abs().max() > 0.05


def test_the_role_loss_adds_kl_and_entropy_and_corrects_no_token_that_the_sampler_could_not_score():
    loss = RoleLoss(make_objective("rloo"), settings(beta=0.1, entropy_coef=0.01))
    loss.normalise_by(Counts(2, 3), Counts(2, 3))
    logps = torch.tensor([[-1.0, -1.0], [-1.0, -7.0]], requires_grad=True)
    ref = torch.tensor([[-1.0, 0.0], [-1.0, 50.0]])  # one unmasked token with d = 1: k3 = e - 2
    entropies = torch.tensor([[0.5, 0.5], [2.0, 90.0]])  # 3 over 3 tokens = 1
    value = loss(logps, entropies, batch(ref_per_token_logps=ref))
    policy = -(1 * -2.0 + -1 * -1.0) / 2  # 0.5
    assert value.item() == pytest.approx(policy + 0.1 * (math.e - 2) / 2 - 0.01 * 1.0)
    sums = loss.pop_sums()
    assert sums["kl"].item() == pytest.approx((math.e - 2) / 3)  # the metric is per token
    assert sums["entropy"].item() == pytest.approx(1.0)
    assert loss.pop_sums() == {}
    loss = RoleLoss(make_objective("rloo"), settings())
    loss.normalise_by(Counts(2, 3), Counts(2, 3))
    logps = torch.full((2, 2), -1.0)
    sampled = torch.tensor([[math.nan, -1.0], [-1.0 - math.log(1.5), 0.0]])  # second row: ratio 1.5
    loss(logps, torch.zeros(2, 2), batch(sampling_per_token_logps=sampled))
    sums = loss.pop_sums()
    assert sums["importance_weight"].item() == pytest.approx((1.0 + 1.5) / 2)
    assert sums["sampler_unscored"].item() == pytest.approx(1 / 3)  # of three tokens in the mask


@pytest.mark.parametrize(("estimator", "reduction", "expected"), [
    # d = log ref - log pi: .5, .5 in the first completion, -.5 in the second (one token); rewards' part is 0
    ("k3", "sum", (2 * (math.exp(0.5) - 1.5) + math.exp(-0.5) - 0.5) / 2),
    ("k3", "mean", (2 * (math.exp(0.5) - 1.5) + math.exp(-0.5) - 0.5) / 3),
    ("k1", "sum", (-1.0 + 0.5) / 2),
    ("k1", "mean", (-1.0 + 0.5) / 3),
])  # fmt: skip
def test_the_kl_term_by_estimator_and_reduction(estimator, reduction, expected):
    loss = RoleLoss(make_objective("rloo"), settings(beta=1.0, kl_estimator=estimator, kl_reduction=reduction))
    loss.normalise_by(Counts(2, 3), Counts(2, 3))
    logps = torch.tensor([[-1.0, -1.0], [-1.0, -1.0]])
    known = batch(ref_per_token_logps=torch.tensor([[-0.5, -0.5], [-1.5, 9.0]]))
    known["advantages"] = torch.zeros(2)
    assert loss(logps, torch.zeros(2, 2), known).item() == pytest.approx(expected, abs=1e-6)
