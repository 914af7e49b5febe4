# Tests: examples/README.md
"""examples/*.py: short scripts of public names, which run by themselves."""

import ast
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from countdown_selfplay.packages import absent_package

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
SMALL = {
    "critic_game": {"iterations": 1, "problems": 16, "warm_start": 64},
    "pool": {"rounds": 2},
    "sgs": {"rounds": 2, "demonstrations": 256},
    "symbolic": {"rounds": 2},
    "trl_environment": {"rounds": 1, "held_out": 16},
}


WITH_A_TEST_EACH = {"joint_rloo", "arena", "ladder", "one_file"}


def imported(path):
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]


PUBLIC = {"countdown", "domains", "evaluation", "games", "tiny", "warm_starts", "lab.arena"}
"""Modules of which the examples import names, beside the package itself."""


def test_scripts_to_copy_are_short_and_import_public_modules_alone():
    said = []
    for path in SCRIPTS:
        text = path.read_text(encoding="utf-8")
        own = [name.partition("countdown_selfplay.")[2] for name in imported(path)]
        said += [f"{path.name} imports {name}" for name in own if name and name not in PUBLIC]
        most = 200 if path.name == "one_file.py" else 75
        said += [f"{path.name} has {len(text.splitlines())} lines"] if len(text.splitlines()) > most else []
    assert said == []
    assert {path.stem for path in SCRIPTS} == {*WITH_A_TEST_EACH, *SMALL}


def script(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.matrix
@pytest.mark.parametrize("name", [n for n in SMALL if not any(map(absent_package, imported(EXAMPLES / f"{n}.py")))])
def test_a_script_trains_and_leaves_models_that_are_whole(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script(name).main(**SMALL[name])
    (run,) = [path for path in Path("runs").iterdir() if path.name == f"example-{name.replace('_', '-')}"]
    trained = [path for path in run.rglob("*.safetensors") if (path.parent / "config.json").exists()]
    assert trained


@pytest.mark.matrix
def test_the_ladder_script_reports_its_before_and_after_by_rung(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    script("ladder").main(rounds=2, each=4)
    run, said = Path("runs/example-ladder"), capsys.readouterr().out
    page, found = (run / "report.html").read_text(), json.loads((run / "evaluation.json").read_text())
    for text in (page, said):
        assert "on 24 held-out problems, against before training" in text and "Not measured" not in text
        assert "prover pass@1, rungs 4 to 8" in text and "prover pass@16, rung 3" in text
        assert "texts cut at the token limit was" not in text  # two rounds are not judged
    assert found["after"]["prover"]["rungs"] == [rung for rung in range(3, 9) for _ in range(4)]
    assert not list(run.glob("previous-*")) and (run / "conjecturer" / "config.json").exists()


@pytest.mark.matrix
def test_the_joint_script_reads_flags_over_a_file_over_a_recipe(tmp_path):
    (tmp_path / "own.yaml").write_text(
        "max_steps: 9\nrecipe: tiny/ladder\nprover_learning_rate: 1.0e-5\neval_rungs: [3]\n"
    )
    flags = "--max_steps 1 --operands 3 4 --eval_problems 4 --use_cpu --save_strategy no"
    done = subprocess.run(
        [sys.executable, EXAMPLES / "joint_rloo.py", "--config", "own.yaml", *flags.split(), "--report_to", "none"],
        cwd=tmp_path, env={**os.environ, "HF_HUB_OFFLINE": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    run = tmp_path / "runs" / "tiny-ladder"
    written = json.loads((run / "run.json").read_text())["config"]
    assert written["max_steps"] == 1 and written["prover_learning_rate"] == 1e-5 and written["answers"] == "moves"
    assert {"before", "after"} <= json.loads((run / "evaluation.json").read_text()).keys()
    assert (run / "report.html").exists() and (run / "conjecturer" / "config.json").exists()
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if "loss" in row] == [1]
