# Tests: cli/main.py, cli/options.py, cli/plain.py, config/recipes.py
"""Whatever a user gets wrong is one sentence and exit code 2, in every command; what is a bug keeps its traceback."""

import errno
import json
import os
import random
import re
import shutil
import sys
from importlib.util import find_spec
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
import yaml
from safetensors import SafetensorError

from countdown_selfplay.cli.commands import TRAINERS
from countdown_selfplay.cli.main import guarded, main
from countdown_selfplay.errors import ConfigError

from .. import installed

BINARY = bytes(range(128, 256)) * 4
SHORT = ["--max_steps", "1", "--eval_problems", "0", "--report", "false", "--disable_tqdm", "true"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("bin.yaml", "bin.jsonl", "bin.csv"):
        Path(name).write_bytes(BINARY)
    Path("deep.jsonl").write_text("[" * 100_000)
    Path("deep.yaml").write_text("a: " + "[" * 2000 + "]" * 2000)
    Path("cut.parquet").write_bytes(b"PAR1")
    Path("loop").symlink_to("loop")
    for name in ("folder", "folder.jsonl"):
        Path(name).mkdir()
    for name, text in WRONG["files"].items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
    return tmp_path


WRONG = yaml.safe_load(Path(__file__).with_name("wrong_inputs.yaml").read_text(encoding="utf-8"))
BY_COMMAND = {line.split()[0]: [] for line in WRONG["inputs"]}
for _line in sorted(WRONG["inputs"]):
    BY_COMMAND[_line.split()[0]].append(_line)
OFTEN = {line for own in BY_COMMAND.values() for line in random.Random("wrong inputs").sample(own, -(-len(own) // 24))}
"""Every 24th line of each command, at least one; the others are tested where time is no matter."""


@pytest.mark.parametrize(
    "line",
    [pytest.param(line, marks=() if line in OFTEN else pytest.mark.slow) for line in installed.here(WRONG["inputs"])],
    ids=lambda line: line[:60],
)
def test_wrong_input_is_one_sentence_in_every_command(line, here, refused, monkeypatch):
    words = re.sub(r"<(.)\*(\d+)>", lambda found: found[1] * int(found[2]), line).split()
    while re.match("[A-Z_]+=", words[0]):
        monkeypatch.setenv(*words.pop(0).split("=", 1))
    if words[0] in TRAINERS and "--output_dir" not in line:
        words += ["--output_dir", "out"]
    assert WRONG["inputs"][line] in refused(*words) and not Path("out").exists()


@pytest.mark.parametrize("options", [["--optim_args", "nonsense"], ["--optim", "adamw_bnb_8bit"]])
def test_an_optimizer_that_cannot_be_made_is_one_sentence(options, here, refused):
    if options[0] == "--optim" and find_spec("bitsandbytes"):
        pytest.skip("bitsandbytes is installed")
    assert "cannot be used:" in refused("joint --output_dir out", *SHORT, *options)


def test_a_dry_run_plans_for_a_machine_that_has_the_reporters_package(here, shown):
    assert "swanlab" in shown("joint --report_to swanlab --dry_run")


HERE = "runs/a/metrics.jsonl"


@pytest.mark.parametrize(("error", "text"), [
    *((OSError(number, os.strerror(number), HERE), f"'{HERE}' cannot be written or read ~ {cure}")
      for number, cure in [
        (errno.ENOSPC, "make room, or name a folder on another disk"),
        (errno.EROFS, "name a folder that can be written to"), (errno.EACCES, "name a place that you may use")]),
    # safetensors' error has no errno, and names the number in its text
    (SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
     "No space left on device; make room, or name a folder on another disk"),
])  # fmt: skip
def test_what_a_disk_refuses_anywhere_in_a_command_is_one_sentence(error, text, capsys):
    def command(argv):
        raise error

    assert guarded(command, []) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and all(part in said for part in text.split(" ~ "))


@pytest.mark.parametrize("error", [ValueError("x"), OSError(errno.EIO, "input/output error"), RecursionError("y")])
def test_a_bug_or_a_failing_machine_keeps_its_traceback(error):
    def command(argv):
        raise error

    with pytest.raises(type(error)):
        guarded(command, [])


def test_a_working_folder_that_is_gone_is_one_sentence(tmp_path, monkeypatch, refused):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    said = "The working folder cannot be used (No such file or directory)"
    assert said in refused("solve 3 5 7 --target 22")


def test_a_terminal_that_lacks_a_sign_shows_its_number(monkeypatch):
    """`recipes` names Ståblein: å is U+00E5."""
    shown = TextIOWrapper(BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", shown)
    assert main(["recipes"]) == 0
    shown.flush()
    assert b"Allen and St\\xe5blein" in shown.buffer.getvalue()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    lora = ["--policy_sharing", "lora", "--save_steps", "1"]
    assert main(["joint", "--output_dir", str(folder), *SHORT, *lora]) == 0
    return folder


@pytest.mark.parametrize("place", ["conjecturer", "checkpoint-1/conjecturer", "elsewhere"])
def test_a_conjecturers_folder_is_not_scored_as_a_provers_unless_asked(place, trained, tmp_path, refused, shown):
    folder = trained / place
    if place == "elsewhere":  # what the folder says goes with it
        folder = shutil.copytree(trained / "conjecturer", tmp_path / "copied")
    error = refused("eval --n_problems 2 --samples 2 --model", folder)
    assert f"'{folder}' was trained as a conjecturer; pass --role conjecturer" in error
    assert shown("eval --n_problems 2 --samples 2 --model", trained / "prover")
    assert shown("eval --role conjecturer --samples 8 --model", trained / "conjecturer")


def test_a_warm_started_conjecturer_is_known_by_its_run(tmp_path):
    from countdown_selfplay.evaluation.setting import role_of

    (tmp_path / "run.json").write_text(json.dumps({"config": {"role": "conjecturer"}}))
    with pytest.raises(ConfigError, match="was trained as a conjecturer"):
        role_of(str(tmp_path), None)
    assert (role_of(str(tmp_path), "prover"), role_of("tiny", None)) == ("prover", "prover")
