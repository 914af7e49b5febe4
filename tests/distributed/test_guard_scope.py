# Tests: training/rollbacks.py, training/callbacks/guard.py
"""`guard_scope: conjecturer` on two processes: the conjecturer alone goes back, on both, and a resume is exact."""

import pytest
import torch
from safetensors.torch import load_file

from tests.trainer.conftest import rounds
from tests.trainer.test_guard_scope import ALONE

from .test_two_processes import STATE, run

pytestmark = [pytest.mark.distributed, pytest.mark.matrix]


def weights(folder, step, policy):
    return load_file(folder / f"checkpoint-{step}" / policy / "model.safetensors")


def test_a_rollback_of_the_conjecturer_alone_is_equal_on_both_ranks_and_a_resume_is_exact(tmp_path):
    """In round 5 each process has a conjecturer of other noise: only one that went back on both is equal again. Its
    proposals were sampled from checkpoint-4, so that the one before is taken."""
    settings = {**ALONE, "save_steps": 1}
    straight = run(tmp_path / "straight", noise=4, **settings)
    assert straight["memory"]["conjecturer_guard"] == {"rollbacks": 1, "healthy": True}
    assert [line["conjecturer/rolled_back"] for line in rounds(tmp_path / "straight")] == [0, 0, 0, 0, 1, 0, 0]
    for policy, back in (("conjecturer", True), ("prover", False)):
        then, now = (weights(tmp_path / "straight", step, policy) for step in (3, 5))
        assert all(torch.equal(then[name], now[name]) for name in then) == back, policy
    resumed = run(tmp_path / "resumed", str(tmp_path / "straight" / "checkpoint-5"), **settings)
    for name in STATE:
        assert straight[name] == resumed[name], name
