# Tests: docs/tutorial.md
"""The commands of docs/tutorial.md, in their order."""

import json
import os
import re
import shlex
from pathlib import Path

import pytest
import yaml

from countdown_selfplay.cli.main import main

from .test_docs import ROOT, blocks

PAGE = ROOT / "docs" / "tutorial.md"
KNOWN = {"operands": [3], "number_high": 12}
"""Problems that the embedded model knows."""


def commands():
    """The page's command lines, without the name of the program, and without the one that makes SmolLM2."""
    lines = [
        shlex.split(line)[1:]
        for block in blocks(PAGE, "bash")
        for line in block.splitlines()
        if line.startswith("countdown-selfplay ")
    ]
    return [words for words in lines if words[0] != "models"]


def play(folder, model, capsys, **changed):
    """Run them in `folder` with `model` for SmolLM2; what each printed."""
    (text,) = blocks(PAGE, "yaml")
    (folder / "tutorial.yaml").write_text(yaml.safe_dump({**yaml.safe_load(text), **changed, "disable_tqdm": True}))
    Path("runs/tutorial").mkdir(parents=True)
    printed = []
    for line in commands():
        line = [model if word == "models/smollm2" else word for word in line]
        for name in (name for name in changed if f"--{name}" in line):  # those of `dataset`, which reads no YAML
            value = changed[name]
            line[line.index(f"--{name}") + 1] = str(value[0] if isinstance(value, list) else value)
        assert main(line) == 0, line
        printed.append(capsys.readouterr().out)
    return printed


def check(printed):
    """What the page says that each command leaves and prints."""
    made, runs = dict(zip(map(" ".join, commands()), printed, strict=True)), Path("runs/tutorial")
    for stage in ("sft", "ipo", "joint"):
        found = json.loads((runs / stage / "evaluation.json").read_text())
        assert len(found["after"]["prover"]["correct"]) == 32, stage
    assert json.loads((runs / "conjecturer" / "evaluation.json").read_text())["after"]["conjecturer"]["n"] == 32
    rounds = [json.loads(line) for line in (runs / "joint" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in rounds if "loss" in line] == [1, 2, 3]
    planned = next(text for line, text in made.items() if line.endswith("--dry_run"))
    assert "4 problems x 4 = 16 answers" in planned and "1 prompt x 8 = 8 proposals" in planned
    assert (runs / "joint" / "report.html").is_file()
    assert re.search(r"^ipo +4 ", printed[-1], re.MULTILINE) and re.search(r"^joint +4 ", printed[-1], re.MULTILINE)
    said = next(text for line, text in made.items() if line.startswith("ipo"))
    assert re.search(r"\d+ pairs of 96 samples of the model itself", said)


@pytest.mark.matrix
def test_the_commands_of_the_tutorial_run_in_order_with_the_embedded_model(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    check(play(tmp_path, "tiny", capsys, **KNOWN))


@pytest.mark.slow
@pytest.mark.skipif("SMOLLM2" not in os.environ, reason="SMOLLM2 must name the folder that `models smollm2` makes")
def test_the_commands_of_the_tutorial_run_in_order_with_smollm2(tmp_path, monkeypatch, capsys):
    model = str(Path(os.environ["SMOLLM2"]).resolve())
    monkeypatch.chdir(tmp_path)
    check(play(tmp_path, model, capsys))
