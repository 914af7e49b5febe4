# Tests: training/rollouts.py, training/plan.py
"""Answers in moves on two processes, under DDP, FSDP2 and DeepSpeed: they keep the same answers, take the
same steps and end with the same weights, and a resumed run ends as the straight one bit for bit."""

import pytest

from ..trainer.test_moves import SMALL
from .two_processes import ranks_of

pytestmark = pytest.mark.matrix

CONFIG = {
    **SMALL,
    "conjecturer_num_generations": 4,
    # A process has 6 answers of a step, of 1 or 2 moves: 6 to 12 rows in two micro-batches of 10, the second of which
    # may hold some on one process and none on the other.
    "per_device_train_batch_size": 10,
    # No clip: DeepSpeed's is joint, the others' per role.
    "max_grad_norm": 0.0,
    "conjecturer_max_grad_norm": 0.0,
    "max_steps": 4,
    "save_strategy": "steps",
    "save_steps": 2,
    "use_cpu": True,
}


def played(engine, output, resume_at, **changes):
    """What each process of a launch found; but for what each walked through, it must be the same."""
    return ranks_of(engine, "moves_worker", output, resume_at=resume_at, config={**CONFIG, **changes})


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return played("ddp", tmp_path_factory.mktemp("moves"), 2)


def end_alike(ranks, engine):
    first, second = ({**rank["straight"], "walked": None} for rank in ranks)
    assert first == second and first["processes"] == 2 and first["engine"] == engine
    for rank in ranks:
        straight, resumed = rank["straight"], rank["resumed"]
        assert all(straight[name] == resumed[name] for name in ("weights", "kept", "owed"))
    return first


def test_both_processes_end_alike_and_a_resumed_run_ends_as_the_straight_one(ranks):
    first = end_alike(ranks, "ddp")
    steps, new, generations = zip(*first["rounds"], strict=True)
    assert list(generations) == [40, 80, 120, 160]  # of both processes together
    assert sum(new) >= len(first["kept"]) > 0
    assert sum(steps) + first["owed"] == sum(new)  # 8 times each, in steps of 8


@pytest.mark.parametrize("engine", ["fsdp2", "zero2", "zero3"])
def test_under_other_engines_both_processes_run_equally_many_passes(ranks, tmp_path, engine):
    """Processes exchange weights or gradients in a pass: where one has rows left, the other runs a pass of weight 0.
    They find what DDP's processes find in their first two rounds."""
    found = played(engine, tmp_path, 1, max_steps=2, save_steps=1)
    first = end_alike(found, engine)
    assert first["rounds"] == ranks[0]["straight"]["rounds"][:2]
    one, other = (rank["straight"]["walked"] for rank in found)
    assert len(one) == len(other) and any(one)
