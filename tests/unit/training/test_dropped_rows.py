# Tests: training/micro_batch.py, training/window.py
"""More rows than fit: the policy term's gradient is that of all samples, exactly where what was dropped has no credit,
and in expectation where it has."""

import pytest
import torch

from countdown_selfplay.objectives import make_objective
from countdown_selfplay.objectives.base import LossInputs
from countdown_selfplay.objectives.rloo import RLOO
from countdown_selfplay.training.micro_batch import micro_batches
from countdown_selfplay.training.window import credited_as_sampled, fitted, trained_counts, windows

from .test_window import RoleBatch, numbers, tensors_of

LENGTHS = [3, 1, 2, 4, 1, 2, 5, 1, 2, 2, 3, 1]
FEW = [1.0, 0.0, -0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.25, 0.0, -1.0]  # of groups of four: 2, 0 and 2 with credit
MANY = [0.5, -0.5, 1.0, -1.0, 0.25, 0.0, 0.0, -0.25, 1.0, 0.5, -1.5, 0.0]  # 9 with credit


class ByToken(RLOO):
    """No objective without replay takes this mean."""

    normalization = "token"

    def loss(self, inputs):
        from countdown_selfplay.objectives.base import LossOutput, normalise

        return LossOutput(normalise(-inputs.advantages_B[:, None] * inputs.logps_BT, inputs, "token"))


OBJECTIVES = [*(make_objective(name) for name in ("rloo", "grpo", "dr_grpo", "cispo")), ByToken()]
HOW = ["sequence", "sequence_mean", "length_cap", "group", "token"]


def batch_of(advantages, selected=None):
    selected_B = None if selected is None else torch.tensor(selected)
    groups = torch.arange(len(advantages)) // 4
    return RoleBatch(tensors_of([1] * len(advantages), LENGTHS), torch.tensor(advantages), selected_B, groups)


def gradients(batch, objective, counts):
    """Row's number -> gradient of the loss in the log-probs of its own tokens; of rows without a gradient none.
    `counts`: over all processes / processes, as the frame hands them to the loss."""
    (one,) = micro_batches({"prover": batch}, {"prover": 1})
    logps = torch.full(one["completion_mask"].shape, -1.0, dtype=torch.float64, requires_grad=True)
    mask, tokens = one["completion_mask"].double(), one["group_tokens"].double()
    advantages = one["advantages"].double()
    inputs = LossInputs(logps, logps.detach(), advantages, mask, *counts, length_cap=8, group_tokens_B=tokens)
    objective.loss(inputs).loss.backward()
    rows = zip(one["prompt_ids"][:, -1].tolist(), logps.grad, mask.bool(), strict=True)
    return {row: grad[own].tolist() for row, grad, own in rows if grad.any()}


@pytest.mark.parametrize("objective", OBJECTIVES, ids=HOW)
@pytest.mark.parametrize("selected", [None, [True] * 7 + [False] + [True] * 4], ids=["all", "one left out"])
def test_without_credit_dropped_the_gradient_is_that_of_the_full_batch(objective, selected):
    whole = batch_of(FEW, selected)
    left, dropped = fitted(whole, 6, key=0)
    assert dropped == 0 and left.rows == 6 and {1, 3, 10, 12} <= set(numbers(left))
    kept, sampled = trained_counts(left), trained_counts(whole)
    found = credited_as_sampled(left, whole, objective.normalization, kept, sampled, dropped)
    full = gradients(whole, objective, sampled)
    assert gradients(found, objective, kept) == {row: pytest.approx(grad, rel=1e-6) for row, grad in full.items()}
    assert set(full) == {1, 3, 10, 12}
    wrong = gradients(left, objective, kept)  # a mean over what is left: larger
    assert all(abs(wrong[row][0]) > 1.2 * abs(full[row][0]) for row in full)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=HOW)
def test_a_subset_of_the_credit_has_the_full_gradient_in_expectation(objective):
    """Each of the 9 rows with credit is among the 6 that are left with probability 6 / 9, and its gradient is then
    9 / 6 of its gradient in the full batch."""
    whole = batch_of(MANY)
    sampled = trained_counts(whole)
    full = gradients(whole, objective, sampled)
    for key in range(4):
        left, dropped = fitted(whole, 6, key)
        assert dropped == 3
        kept = trained_counts(left)
        found = gradients(
            credited_as_sampled(left, whole, objective.normalization, kept, sampled, dropped), objective, kept
        )
        assert set(found) == set(numbers(left)) < set(full)
        assert found == {row: pytest.approx([1.5 * g for g in full[row]], rel=1e-6) for row in found}


@pytest.mark.parametrize("objective", OBJECTIVES, ids=HOW)
def test_processes_that_drop_differently_make_the_full_gradient_together(objective):
    """One drops six rows without credit, the other has three rows and is padded; the mean of their gradients is that
    of all 15 samples: 1 / 2 of each sum by counts over 2 processes."""
    one = batch_of(FEW)
    other = RoleBatch(
        tensors_of([1] * 3, [2, 3, 1], first=20), torch.tensor([1.0, -1.0, 0.0]), None, torch.zeros(3).long()
    )
    left = [fitted(part, 6, key=0) for part in (one, other)]
    sampled = [a + b for a, b in zip(trained_counts(one), trained_counts(other), strict=True)]
    kept = [a + b for a, b in zip(*(trained_counts(part) for part, _ in left), strict=True)]
    assert sampled[0] == 15 and kept[0] == 9
    full, found = {}, {}
    for whole, (part, dropped) in zip((one, other), left, strict=True):
        full |= gradients(whole, objective, [count / 2 for count in sampled])
        fixed = credited_as_sampled(part, whole, objective.normalization, kept, sampled, dropped)
        found |= gradients(fixed, objective, [count / 2 for count in kept])
    assert found == {row: pytest.approx(grad, rel=1e-6) for row, grad in full.items()} and len(full) == 6


def test_windows_of_what_is_left_share_the_correction():
    """Two steps of three rows each: each is a mean over three rows, of advantages 6 / 12 of what they were."""
    whole = batch_of(FEW)
    left, dropped = fitted(whole, 6, key=0)
    found = credited_as_sampled(left, whole, "sequence", trained_counts(left), trained_counts(whole), dropped)
    cut = windows(found, 2, key=0)
    credit = {n: a for part in cut for n, a in zip(numbers(part), part.advantages_B.tolist(), strict=True) if a}
    assert credit == {1: 0.5, 3: -0.25, 10: 0.125, 12: -0.5}
    assert whole.advantages_B.tolist() == FEW  # as it was
