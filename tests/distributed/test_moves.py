"""Answers in moves on two processes: they keep the same answers, take the same steps and end with the same weights,
and a resumed run ends as the straight one bit for bit."""

import json
from pathlib import Path

import pytest

from ..trainer.test_moves import SMALL
from .two_processes import torchrun

pytestmark = pytest.mark.matrix

WORKER = Path(__file__).parent / "moves_worker.py"
CONFIG = {
    **SMALL,
    "conjecturer_num_generations": 4,
    "max_steps": 4,
    "save_strategy": "steps",
    "save_steps": 2,
    "use_cpu": True,
}


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    output = tmp_path_factory.mktemp("moves")
    process = torchrun(WORKER, json.dumps({"output": str(output), "config": CONFIG}))
    assert process.returncode == 0, process.stderr[-4000:]
    return [json.loads((output / f"rank{rank}.json").read_text()) for rank in (0, 1)]


def test_both_processes_end_alike(ranks):
    first, second = (rank["straight"] for rank in ranks)
    assert first == second and first["processes"] == 2
    steps, new, generations = zip(*first["rounds"], strict=True)
    assert list(generations) == [40, 80, 120, 160]  # of both processes together
    assert sum(new) >= len(first["kept"]) > 0
    assert sum(steps) + first["owed"] == sum(new)  # 8 times each, in steps of 8


def test_a_resumed_run_ends_as_the_straight_one(ranks):
    for rank in ranks:
        straight, resumed = rank["straight"], rank["resumed"]
        assert all(straight[name] == resumed[name] for name in ("weights", "kept", "owed"))
