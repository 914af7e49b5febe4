# Tests: cli/main.py, cli/help.py, cli/launch.py, cli/commands.py
"""The dispatcher and the launcher of the command line."""

import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import countdown_selfplay
from countdown_selfplay.cli import launch, main
from countdown_selfplay.cli.commands import COMMANDS, NAMES
from countdown_selfplay.errors import ConfigError, DataError, MissingExtraError

from ..installed import here

ROOT = Path(__file__).resolve().parents[2]


def run_python(*arguments: str, **kwargs: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL, **kwargs
    )


def test_help_lists_every_available_command_with_its_line(shown):
    printed = shown("--help")
    for name in NAMES:
        line = re.search(rf"^  {name} +(\S.*)$", printed, re.MULTILINE)
        assert line is not None, f"{name} is not listed or has no help line"
        assert line[1].startswith(COMMANDS[name].help)  # and "(needs lab)" where that is absent


def test_without_a_command_there_is_help_and_each_has_a_main_and_an_unknown_one_the_nearest(run, shown):
    assert shown("").startswith("usage: countdown-selfplay")
    assert shown("--version") == f"countdown-selfplay {countdown_selfplay.__version__}\n"
    assert all(callable(main.program(name)) for name in here(COMMANDS))
    code, out, error = run("evn")
    assert (code, out, error.count("\n")) == (2, "", 1) and "Unknown command 'evn'. Did you mean 'env'?" in error


@pytest.mark.parametrize(("error", "code", "text"), [
    (DataError("row 3, column 'nums': empty.\nPass numbers."), 2, "error: row 3, column 'nums': empty. Pass numbers."),
    (KeyboardInterrupt(), 130, "interrupted"),
])  # fmt: skip
def test_an_expected_error_is_one_line_and_an_exit_code(error, code, text, capsys):
    def command(argv: list[str]) -> int:
        raise error

    assert main.guarded(command, []) == code
    assert capsys.readouterr().err == f"countdown-selfplay: {text}\n"


WORKER = """
import os, sys
from countdown_selfplay.cli.main import guarded
from countdown_selfplay.errors import DataError
def command(argv):
    raise DataError("row 1: empty.")
def one(argv):
    if os.environ["RANK"] == "1":
        raise DataError("the disk is full.")
    return 0
guarded(command, [])
sys.exit(guarded(one, []))  # torchrun ends the others at the first that leaves with an error
"""


@pytest.mark.distributed
def test_processes_say_an_error_that_all_meet_once_and_one_that_a_single_rank_meets_with_its_rank(tmp_path):
    (tmp_path / "worker.py").write_text(WORKER)
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "3", str(tmp_path / "worker.py")]
    errors = run_python(*launch).stderr
    assert errors.count("error: row 1: empty.") == 1
    assert errors.count("countdown-selfplay (rank 1): error: the disk is full.") == 1


def test_processes_of_another_launcher_each_say_their_error(monkeypatch, capsys):
    """Nothing tells them of each other: no file of torchrun's."""

    def command(argv: list[str]) -> int:
        raise DataError("row 1: empty.")

    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE", raising=False)
    monkeypatch.setenv("RANK", "3")
    assert main.guarded(command, []) == main.guarded(command, []) == 2
    assert capsys.readouterr().err == 2 * "countdown-selfplay (rank 3): error: row 1: empty.\n"


def test_help_lists_and_errors_load_neither_torch_nor_trl():
    lines = ["--help", "nonsense", "recipes", "recipes tiny/default", "joint --recipe tiny/defualt", "joint --help"]
    lines += [*here(["arena --list", "arena --contestants nonsense"]), *(f"{name} --help" for name in here(NAMES))]
    code = (
        "import contextlib, sys\n"
        "from countdown_selfplay.cli.main import main\n"
        f"for line in {lines}:\n"
        "    with contextlib.suppress(SystemExit):\n"  # argparse's own, after its help
        "        assert main(line.split()) == (2 if 'nonsense' in line or 'defualt' in line else 0), line\n"
        "    loaded = {'torch', 'trl', 'transformers', 'datasets'} & set(sys.modules)\n"
        "    assert not loaded, (line, loaded)\n"
    )
    done = run_python("-c", code)
    assert done.returncode == 0, done.stderr


def test_launch_options_become_a_launch_with_its_environment_and_the_rest_its_arguments(monkeypatch):
    options, rest = launch.split_launch_options(
        ["--max_steps", "3", "--num_processes", "2", "--beta=0", "--accelerate_config=zero3", "--seed", "1"]
    )
    assert options == {"num_processes": "2", "accelerate_config": "zero3"}
    assert rest == ["--max_steps", "3", "--beta=0", "--seed", "1"]
    seen = []
    monkeypatch.setattr(launch.os, "execve", lambda path, line, env: seen.append((path, line, env)))
    launch.launch("joint", {"accelerate_config": "cpu_ddp"}, ["--seed", "3"])
    (path, line, environment) = seen[0]
    assert path == sys.executable and line[-3:] == ["joint", "--seed", "3"]
    assert environment["ACCELERATE_USE_CPU"] == "true"
    assert environment[launch.LAUNCHED] == "1"  # the processes of a launch do not say again that they load PyTorch
    assert environment["PATH"] == launch.os.environ["PATH"]

    def fake_launch(command, options, argv):
        raise SystemExit(f"{command} {options} {argv}")  # like the real one, it does not come back

    monkeypatch.setattr(launch, "launch", fake_launch)
    with pytest.raises(SystemExit) as seen:
        main.main(["joint", "--num_processes", "2", "--seed", "3"])
    assert seen.value.code == "joint {'num_processes': '2'} ['--seed', '3']"


def test_a_named_config_is_launched_from_the_shipped_folder_and_ones_own_as_it_is(monkeypatch, tmp_path):
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: name == "deepspeed")
    monkeypatch.setattr(launch, "_accelerators", lambda: 4)
    options = {"accelerate_config": "zero3", "num_processes": "4"}
    line, environment = launch.launch_command("joint", options, ["--seed", "1"])
    assert line[1:] == [
        *("-m", "accelerate.commands.accelerate_cli", "launch"),
        *("--config_file", str(ROOT / "accelerate_configs" / "zero3.yaml")),
        *("--num_processes", "4"),
        *("-m", "countdown_selfplay.cli.main", "joint", "--seed", "1"),
    ]
    assert environment == {}  # with ACCELERATE_USE_CPU DeepSpeed would silently become DDP
    path = tmp_path / "mine.yaml"
    path.write_text("distributed_type: 'NO'\nnum_processes: 1\n")
    line, _ = launch.launch_command("joint", {"accelerate_config": str(path)}, [])
    assert line[4:6] == ["--config_file", str(path)]
    monkeypatch.setattr(launch, "_accelerators", lambda: 2)
    line, environment = launch.launch_command("joint", {"num_processes": "2"}, [])
    assert line[4:] == ["--num_processes", "2", "-m", "countdown_selfplay.cli.main", "joint"] and environment == {}
    monkeypatch.setattr(launch, "_accelerators", lambda: 1)
    with pytest.raises(ConfigError, match=r"`--num_processes` \(2\) must not exceed the 1 accelerator\(s\)"):
        launch.launch_command("joint", {"num_processes": "2"}, [])


def test_a_launch_without_deepspeed_or_inside_a_launch_is_refused(monkeypatch):
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=re.escape("pip install 'countdown-selfplay[deepspeed]'")):
        launch.launch_command("joint", {"accelerate_config": "zero2"}, [])
    monkeypatch.setenv("LOCAL_RANK", "0")
    with pytest.raises(ConfigError, match="LOCAL_RANK is set"):
        launch.launch_command("joint", {"num_processes": "2"}, [])


@pytest.mark.parametrize(("name", "more", "devices", "says"), [
    ("ddp", {}, 0, "(ddp) asks for 8 accelerator(s) on this machine, which has 0; use cpu_ddp"),
    ("single_gpu", {}, 0, "(single_gpu) asks for 1 accelerator(s) on this machine, which has 0; use cpu_ddp"),
    ("fsdp2", {}, 4, "(fsdp2) asks for 8 accelerator(s) on this machine, which has 4; lower --num_processes."),
    ("ddp", {"num_processes": "16", "num_machines": "4"}, 4, ""),
    ("single_gpu", {}, 1, ""),
    ("cpu_fsdp2", {}, 0, ""),
], ids=str)  # fmt: skip
def test_accelerators_that_are_not_there_are_named_before_a_process_starts(name, more, devices, says, monkeypatch):
    monkeypatch.setattr(launch, "_accelerators", lambda: devices)
    if not says:
        assert launch.launch_command("joint", {"accelerate_config": name, **more}, [])
        return
    with pytest.raises(ConfigError, match=re.escape(says)):
        launch.launch_command("joint", {"accelerate_config": name, **more}, [])


@pytest.mark.parametrize(("given", "passed"), [
    ([], ["--use_cpu", "true"]), (["--use_cpu"], ["--use_cpu"]), (["--use_cpu=true"], ["--use_cpu=true"]),
], ids=str)  # fmt: skip
def test_deepspeed_on_a_cpu_is_told_so_by_the_name_of_its_config(given, passed):
    """With `use_cpu` in the file Accelerate would turn DeepSpeed off; without the option each process trains alone."""
    pytest.importorskip("deepspeed")
    line, environment = launch.launch_command("joint", {"accelerate_config": "cpu_zero3"}, given)
    assert line[line.index("joint") + 1 :] == passed and environment == {}


def test_a_trainer_command_leaves_the_process_group(monkeypatch):
    import torch.distributed as dist

    def fake_joint(argv, command):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        return 5

    monkeypatch.setitem(sys.modules, "countdown_selfplay.cli.joint", types.SimpleNamespace(main=fake_joint))
    assert main.main(["joint"]) == 5
    assert not dist.is_initialized()


PROBE = """
import os
import torch
from accelerate import Accelerator
from countdown_selfplay.distributed.launch import leave_process_group
a = Accelerator()
wrapped = type(a.prepare(torch.nn.Linear(2, 2))).__name__
total = a.reduce(torch.tensor([float(a.process_index + 1)]), "sum").item()
print(f"[{a.num_processes} {a.distributed_type.value} {wrapped} {total}]\\n", end="", flush=True)
leave_process_group()
os._exit(0)  # whatever gloo's threads still hold
"""


@pytest.mark.distributed
@pytest.mark.parametrize("options", [{"accelerate_config": "cpu_ddp"}, {"num_processes": "2"}], ids=str)
def test_two_cpu_processes_are_started_and_know_of_each_other(options, tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "_accelerators", lambda: 0)
    probe = tmp_path / "probe.py"
    probe.write_text(PROBE)
    line, environment = launch.launch_command("joint", options, [])
    line = [*line[: line.index("countdown_selfplay.cli.main") - 1], str(probe)]  # the same launch of another program
    done = run_python(*line[1:], env={**launch.os.environ, **environment})
    assert done.returncode == 0, done.stderr
    # 1 + 2 = 3: the sum over both ranks, so they really exchanged something
    assert done.stdout.count("[2 MULTI_CPU DistributedDataParallel 3.0]") == 2, done.stdout + done.stderr
