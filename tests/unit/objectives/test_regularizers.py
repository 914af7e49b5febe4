# Tests: objectives/base.py
"""KL estimate, entropy bonus and how a role's loss puts them together."""

import math

import pytest
import torch

from countdown_selfplay.config import Role
from countdown_selfplay.objectives import make_objective
from countdown_selfplay.objectives.base import kl_k1, kl_k3
from countdown_selfplay.training.losses import RoleLoss
from countdown_selfplay.training.plan import Counts


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
