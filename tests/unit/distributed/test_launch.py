# Tests: distributed/launch.py
"""A launch that was asked for several processes and has started one; a real one is in tests/distributed."""

import re
from pathlib import Path

import pytest

from countdown_selfplay.distributed import launch
from countdown_selfplay.errors import ConfigError

CONFIG = str(Path(__file__).parents[3] / "accelerate_configs" / "cpu_ddp.yaml")
CLI = ("-m", "accelerate.commands.accelerate_cli")


@pytest.mark.parametrize(
    ("line", "number"),
    [
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
    ],
    ids=lambda value: " ".join(value)[-60:] if isinstance(value, list) else "",
)
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
    import psutil

    assert launch._parents_line() == psutil.Process().parent().cmdline()
