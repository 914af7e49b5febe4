# Tests: training/learners.py, training/losses.py, config/role_rules.py, config/room_rules.py
"""Demonstrations beside a step's answers: the gradient of the sum, and what each process has of them."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from countdown_selfplay.config import JointSelfPlayConfig
from countdown_selfplay.distributed.processes import ALONE
from countdown_selfplay.objectives import make_objective
from countdown_selfplay.training.learners import Demonstrations
from countdown_selfplay.training.losses import RoleLoss
from countdown_selfplay.training.micro_batch import micro_batches
from countdown_selfplay.training.replay import Kept
from countdown_selfplay.training.window import RoleBatch, sft_tokens, trained_counts

from .test_window import tensors_of

COEF, VOCABULARY = 3.0, 12  # a supervised share of 3 / 4
GIVEN = {"output_dir": "runs/none", "per_device_train_batch_size": 8, "use_cpu": True}
GIVEN |= {"prover_demonstrations_per_step": 2, "prover_sft_coef": COEF, "prover_num_generations": 4}


def demonstrations(*answers):
    rows = [tuple(Kept(0, 0.0, [1], move, {}) for move in moves) for moves in answers]
    return Demonstrations(len(rows), lambda n, seed: rows)


def window():
    """Two problems with two answers each, of 3, 1, 2 and 2 tokens; the token of row i is i + 1."""
    advantages_PG = make_objective("rloo").advantages(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    assert advantages_PG.tolist() == [[1.0, -1.0], [-1.0, 1.0]]
    return RoleBatch(tensors_of([2, 2, 1, 1], [3, 1, 2, 2]), advantages_PG.flatten(), None, torch.tensor([0, 0, 1, 1]))


def gradient(batch, count, most):
    """Of the whole window in float64, for a policy that draws every token from softmax(logits)."""
    loss = RoleLoss(make_objective("rloo"), JointSelfPlayConfig(**GIVEN, conjecturer_micro_batches=0).role("prover"))
    logits = torch.linspace(-1, 1, VOCABULARY, dtype=torch.float64, requires_grad=True)
    loss.normalise_by(*trained_counts(batch), sft_tokens(batch))
    for part in micro_batches({"prover": batch}, {"prover": count}, most=most):
        logps = logits.log_softmax(0)[part["completion_ids"]]
        loss(logps, torch.zeros_like(logps), part).backward()
    return logits.grad, logits.detach().softmax(0)


@pytest.mark.parametrize("count, most", [(1, 7), (3, 4), (4, 3)])
def test_the_gradient_is_rloos_plus_that_of_the_mean_token_of_the_demonstrations(count, most):
    """By hand: d log softmax(l)_t / dl = e_t - p. RLOO: minus the mean over 4 answers of A times that, summed over an
    answer's tokens; the supervised term: minus its mean over the 5 tokens of the two demonstrations, one of which
    has two moves. Nothing depends on how rows are cut into micro-batches."""
    batch = demonstrations([[7, 8]], [[9], [10, 10]]).beside(window(), ("k",), ALONE)
    assert trained_counts(batch) == [4.0, 8.0, 2.0] and sft_tokens(batch) == 5
    found, p = gradient(batch, count, most)
    unit = torch.eye(VOCABULARY, dtype=torch.float64)
    answers = [(1.0, [1] * 3), (-1.0, [2]), (-1.0, [3] * 2), (1.0, [4] * 2)]
    expected = -sum(credit * (unit[token] - p) for credit, tokens in answers for token in tokens) / 4
    expected -= COEF * sum(unit[token] - p for token in (7, 8, 9, 10, 10)) / 5
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_two_processes_share_what_one_has():
    made = demonstrations([[5]], [[6]], [[7]], [[8]])
    ranks = [made.beside(window(), ("k",), SimpleNamespace(rank=rank, world=2)) for rank in (0, 1)]
    own = [batch.tensors["completion_ids"][4:, 0].tolist() for batch in ranks]
    assert [len(one) for one in own] == [2, 2] and sorted(own[0] + own[1]) == [5, 6, 7, 8]


def test_rows_that_no_policy_sampled_are_in_no_term_that_reads_a_sampler_or_a_reference():
    """A KL to the start beside demonstrations, and kept log-probs of several steps: a demonstration has neither. KL by
    k3 of the window's own 8 tokens, of which each differs by log 2 from the reference: 2 - 1 - log 2 a token."""
    batch, current = window(), -1.0
    mask = batch.tensors["completion_mask"]
    batch.tensors["ref_per_token_logps"] = torch.full(mask.shape, current + math.log(2.0))
    for name in ("old_per_token_logps", "sampling_per_token_logps"):
        batch.tensors[name] = torch.full(mask.shape, current)
    found = demonstrations([[5, 6, 7]], [[5, 6, 7]]).beside(batch, ("k",), ALONE)
    assert found.rows == 6 and found.tensors["old_per_token_logps"][4:].isnan().all()
    settings = JointSelfPlayConfig(**GIVEN, conjecturer_micro_batches=0).role("prover")
    loss = RoleLoss(make_objective("rloo"), replace(settings, beta=1.0))
    loss.normalise_by(*trained_counts(found), sft_tokens(found))
    for part in micro_batches({"prover": found}, {"prover": 2}, most=4):
        shape = part["completion_ids"].shape
        loss(torch.full(shape, current), torch.zeros(()).expand(shape), part)
    assert float(loss.pop_sums()["kl"]) == pytest.approx(1 - math.log(2.0))
