# Tests: training/learners.py, training/losses.py, config/role_rules.py
"""Demonstrations beside a step's answers: the gradient of the sum, and which ones a step has."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.joint_config import joint_config
from transformers import AutoTokenizer

from countdown_selfplay.objectives import make_objective
from countdown_selfplay.tiny import TINY_MODEL_PATH
from countdown_selfplay.training.learners import demonstrations_of
from countdown_selfplay.training.losses import RoleLoss
from countdown_selfplay.training.plan import Planner, Room, Sample, collate

from .test_samples import samples_of, turn

COEF, VOCABULARY = 3.0, 12  # a supervised share of 3 / 4
GIVEN = {"output_dir": "runs/none", "per_device_train_batch_size": 8, "use_cpu": True, "conjecturer_players": 0}
GIVEN |= {"prover_demonstrations_per_step": 2, "prover_sft_coef": COEF, "prover_num_generations": 4}


def demonstrations(*answers):
    """Each a list of moves, which are lists of tokens."""
    return [
        Sample(np.array([1]), np.array(move), 0.0, -1 - i, -1 - i, trained=False, imitated=True)
        for i, moves in enumerate(answers)
        for move in moves
    ]


def answers(**logps):
    """Two problems with two answers each, of 3, 1, 2 and 2 tokens; the token of row i is i + 1."""
    advantages_PG = make_objective("rloo").advantages(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    assert advantages_PG.tolist() == [[1.0, -1.0], [-1.0, 1.0]]
    logps = {name: torch.full((4, 3), value) for name, value in logps.items()}
    return samples_of([turn([2, 2, 1, 1], [3, 1, 2, 2], advantages_PG.flatten().tolist(), 2, **logps)], 0)


def passes(shown, rows, loss, own=None):
    """The micro-batches of a step, whose counts the loss is told."""
    roles = {"prover": frozenset({"prover"})}
    planner = Planner(Room(rows), 0, roles, lambda _: loss.proportional, frozenset(), True)
    step = planner.step({"prover": answers() if own is None else own}, {"prover": shown})
    loss.normalise_by(step.counts["prover"], step.measured["prover"])
    return [collate(one.parts[0][1], group_tokens=step.group_tokens["prover"]) for one in step.passes]


@pytest.mark.parametrize("rows", [7, 4, 3, 2])
def test_the_gradient_is_rloos_plus_that_of_the_mean_token_of_the_demonstrations(rows):
    """By hand: d log softmax(l)_t / dl = e_t - p. RLOO: minus the mean over 4 answers of A times that, summed over an
    answer's tokens; the supervised term: minus its mean over the 5 tokens of the two demonstrations, one of which
    has two moves. Nothing depends on how rows are cut into micro-batches."""
    loss = RoleLoss(make_objective("rloo"), joint_config(**GIVEN).role("prover"))
    logits = torch.linspace(-1, 1, VOCABULARY, dtype=torch.float64, requires_grad=True)
    for batch in passes(demonstrations([[7, 8]], [[9], [10, 10]]), rows, loss):
        logps = logits.log_softmax(0)[batch["completion_ids"]]
        loss(logps, torch.zeros_like(logps), batch).backward()
    unit, p = torch.eye(VOCABULARY, dtype=torch.float64), logits.detach().softmax(0)
    scored = [(1.0, [1] * 3), (-1.0, [2]), (-1.0, [3] * 2), (1.0, [4] * 2)]
    expected = -sum(credit * (unit[token] - p) for credit, tokens in scored for token in tokens) / 4
    expected -= COEF * sum(unit[token] - p for token in (7, 8, 9, 10, 10)) / 5
    torch.testing.assert_close(logits.grad, expected, rtol=1e-12, atol=1e-12)


def test_each_step_draws_other_demonstrations_and_processes_share_them():
    asked = []
    made = [[({"prompt": "1"}, "2")]]
    domain = SimpleNamespace(demonstrations=lambda n, seed, rungs: asked.append((n, seed)) or made)
    settings = joint_config(**{**GIVEN, "prover_demonstrations_per_step": 5}).role("prover")
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL_PATH)
    draw = demonstrations_of("prover", settings, domain, tokenizer, None)
    assert [len(draw(key)) for key in (("k", 0), ("k", 0), ("k", 1))] == [1, 1, 1]
    assert asked[1] == asked[2] != asked[3] and asked[1][0] == 5
