# Tests: distributed/processes.py, distributed/launch.py
"""What processes exchange, on one of them; tests/distributed/test_two_processes.py has the rest."""

from types import SimpleNamespace

import pytest
import torch

from countdown_selfplay.distributed import launch
from countdown_selfplay.distributed.processes import ALONE, Processes, processes_of


def test_one_process_returns_what_the_action_returns_or_raises():
    assert ALONE.together(lambda: {"a": 1}) == {"a": 1}
    with pytest.raises(ZeroDivisionError):
        ALONE.together(lambda: 1 / 0)


@pytest.mark.parametrize(("count", "lengths"), [(6, [2, 2, 2]), (7, [2, 2, 3]), (2, [0, 1, 1]), (0, [0, 0, 0])])
def test_the_contiguous_parts_are_the_whole_in_rank_order(count, lengths):
    """count * rank // 3, by hand: 0 2 4 6, then 0 2 4 7, then 0 0 1 2."""
    items = list(range(count))
    parts = [Processes(rank, 3).share(items) for rank in range(3)]
    assert [len(part) for part in parts] == lengths and [i for part in parts for i in part] == items


@pytest.mark.parametrize("problem", [None, RuntimeError("Connection closed by peer\nmore")])
def test_processes_wait_for_each_other_before_they_leave_unless_one_has_died(monkeypatch, caplog, problem):
    """Without the barrier the first to leave closes connections that another still reads from."""
    did = []

    def wait():
        did.append("wait")
        if problem is not None:
            raise problem

    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "destroy_process_group", lambda: did.append("destroy"))
    monkeypatch.setattr("accelerate.utils.wait_for_everyone", wait)
    monkeypatch.setattr(launch, "_let_go", lambda: did.append("pause"))
    launch.leave_process_group()
    assert did == ["wait", "destroy", "pause"]
    said = ["Not all processes of the run reached its end: Connection closed by peer"]
    assert caplog.messages == ([] if problem is None else said)


@pytest.mark.parametrize("world", [1, 2])
def test_a_process_of_several_pauses_once_before_it_leaves(monkeypatch, world):
    """gloo's threads may hold tensors then, and take the process down with SIGABRT; alone there are none."""
    kept = []
    monkeypatch.setattr(launch.atexit, "register", kept.append)
    monkeypatch.setattr(launch.atexit, "unregister", lambda function: function in kept and kept.remove(function))
    accelerator = SimpleNamespace(num_processes=world, process_index=0, device="cpu")
    for _ in range(2):
        assert processes_of(accelerator).world == world
    assert len(kept) == world - 1
