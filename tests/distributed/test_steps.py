# Tests: training/plan.py, training/round_loop.py, distributed/sharded.py
"""Steps of hand-made samples on two and three processes have the gradients of one pass over all rows."""

from itertools import pairwise

import pytest
import torch

from countdown_selfplay.training.plan import BLANK, Pass
from tests.trainer.conftest import gradients, make_trainer

from .steps_worker import OPTIMIZERS, ROUNDS, STEPS, play, rows
from .two_processes import ranks_of

pytestmark = pytest.mark.distributed

ENGINES = (("ddp", 2), ("ddp", 3), ("zero2", 2), ("zero3", 2), ("fsdp2", 2))
# A step in which a player has no gradient: it must not move.
STILL = {
    "prover": [("one row", 0), ("no row", 0)],
    "conjecturer": [("no row", 0), ("a role without signal", 0), *(("a role that is through", i) for i in (1, 2))],
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """One process; no micro-batch is cut."""
    folder = tmp_path_factory.mktemp("alone")
    return {name: play(folder / name, name, per_device_train_batch_size=64)[1:] for name in OPTIMIZERS}


@pytest.fixture(scope="module", params=ENGINES, ids=lambda launch: f"{launch[0]}-{launch[1]}")
def launched(request, tmp_path_factory):
    (engine, processes), output = request.param, tmp_path_factory.mktemp(request.param[0])
    config = {"per_device_train_batch_size": 4, "gradient_checkpointing": True}
    return engine, output, ranks_of(engine, "steps_worker", output, processes=processes, config=config)


def moves(weights):
    """Of each step."""
    return [{name: after[name] - value for name, value in before.items()} for before, after in pairwise(weights)]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_steps_are_those_of_one_process_that_reads_all_rows_in_one_pass(alone, launched, optimizer):
    engine, output, ranks = launched
    (expected, lines), found = alone[optimizer], torch.load(output / f"{optimizer}.pt")
    for rank in ranks:
        assert rank[optimizer] == ranks[0][optimizer]  # weights after every step, and what is logged
    assert (ranks[0][optimizer]["engine"], ranks[0][optimizer]["processes"]) == (engine, len(ranks))
    assert len(expected) == len(found) == len(STEPS) + 1
    for step, ours, theirs in zip(STEPS, moves(expected), moves(found), strict=True):
        for name, move in ours.items():
            apart = float((theirs[name] - move).abs().max())
            assert apart < 1e-6, (step, name, apart)
        for role, still in STILL.items():
            largest = max(float(move.abs().max()) for name, move in theirs.items() if name.startswith(role))
            assert largest == 0 if step in still else largest > 1e-4, (step, role, largest)
    for name, ours, theirs in zip(ROUNDS, lines, ranks[0][optimizer]["lines"], strict=True):
        assert theirs == pytest.approx(ours, abs=1e-5), name


def test_a_blank_pass_leaves_gradients_as_they_are(tmp_path):
    trainer = make_trainer(tmp_path)
    passes = [Pass(((role, rows(1, 3)),)) for role in ("prover", "conjecturer")]
    loss, plain = gradients(trainer, passes)
    same, found = gradients(trainer, [*passes, Pass((("prover", [BLANK]),))])
    assert loss == same and all(torch.equal(plain[name], found[name]) and plain[name].any() for name in plain)
