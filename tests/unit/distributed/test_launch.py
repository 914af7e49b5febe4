# Tests: distributed/launch.py, distributed/processes.py
"""A launch that has started one process, and what processes exchange; real ones are in tests/distributed."""

import re
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch

from countdown_selfplay.distributed import launch
from countdown_selfplay.distributed.processes import ALONE, Processes, processes_of
from countdown_selfplay.errors import ConfigError

CONFIG = str(Path(__file__).parents[3] / "accelerate_configs" / "cpu_ddp.yaml")
CLI = ("-m", "accelerate.commands.accelerate_cli")


@pytest.mark.parametrize(("line", "number"), [
    (["python", "/usr/bin/accelerate", "launch", "--num_processes", "2", "--cpu", "train.py"], 2),
    (["python", *CLI, "launch", "--num-processes=3", "train.py", "--num_processes", "9"], 3),
    (["python", "/usr/bin/accelerate-launch", "--num_processes", "2", "-m", "train"], 2),
    (["python", *CLI, "launch", "--config_file", CONFIG, "train.py"], 2),
    (["python", *CLI, "launch", "--config_file", CONFIG, "--num_processes", "4", "train.py"], 4),
    (["python", "/usr/bin/accelerate", "launch", "--cpu", "train.py", "--num_processes", "2"], 1),
    (["python", "/usr/bin/accelerate", "launch", "--config_file", "/absent.yaml", "train.py"], 1),
    (["bash", "-c", "accelerate launch --num_processes 2 train.py"], 1),
    (["python", "launch", "--num_processes", "2"], 1),
    ([], 1),
], ids=lambda value: " ".join(value)[-60:] if isinstance(value, list) else "")  # fmt: skip
def test_the_number_is_read_as_accelerate_reads_it(line, number):
    """The script's own arguments are not the launcher's; the flag wins over the config file, which names 2."""
    assert launch.asked_for(line) == number


@pytest.fixture
def lone(monkeypatch):
    """The environment of the only process of `accelerate launch --num_processes 2 --cpu train.py --seed 1`."""
    for name in launch._WORLD:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    monkeypatch.setattr(launch.sys, "orig_argv", ["python", "train.py", "--name", "two words"])
    line = ["python", "accelerate", "launch", "--num_processes", "2", "--cpu", "train.py"]
    monkeypatch.setattr(launch, "_parents_line", lambda: line)
    return line


def test_what_was_asked_for_what_runs_and_what_gives_two_are_one_sentence(lone):
    wanted = "ACCELERATE_USE_CPU=true accelerate launch --multi_gpu --num_processes 2 train.py --name 'two words';"
    with pytest.raises(ConfigError, match=re.escape(wanted)) as error:
        launch.refuse_lone_process()
    assert str(error.value).startswith("`accelerate launch` was asked for 2 processes and has started one:")


@pytest.mark.parametrize("name", launch._WORLD)
def test_two_processes_one_that_was_asked_for_and_one_without_a_launcher_are_no_error(lone, monkeypatch, name):
    monkeypatch.setenv(name, "2")
    assert launch.refuse_lone_process() is None
    monkeypatch.delenv(name)
    lone[4] = "1"
    assert launch.refuse_lone_process() is None
    lone[4] = "2"
    monkeypatch.delenv("ACCELERATE_MIXED_PRECISION")
    assert launch.refuse_lone_process() is None


def test_the_parents_command_line_is_found():
    assert launch._parents_line() == psutil.Process().parent().cmdline()


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
