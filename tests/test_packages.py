# Tests: packages.py
"""Each package beside the core may be left out: what is theirs is then named in a sentence, and the core works."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from countdown_selfplay import packages

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "src" / "countdown_selfplay"
SHORT = ["--max_steps", "1", "--eval_problems", "4", "--eval_proposals", "4", "--disable_tqdm", "true"]


def without(place: Path, *several: str) -> Path:
    """A copy of the repository without these packages and their tests."""
    copy = shutil.copytree(
        ROOT, place, ignore=shutil.ignore_patterns(".git", ".venv*", "runs", "__pycache__", ".old*")
    )
    for package in several:
        shutil.rmtree(copy / "src" / "countdown_selfplay" / package)
        shutil.rmtree(copy / "tests" / package, ignore_errors=True)
    return copy


def run(copy: Path, *line: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    place = {**os.environ, "PYTHONPATH": f"{copy / 'src'}:{copy}", "HF_HUB_OFFLINE": "1"}
    return subprocess.run([sys.executable, *line], cwd=cwd or copy, env=place, capture_output=True, text=True)


def test_every_part_beside_the_core_can_be_imported_by_its_name():
    places = [*packages.CALLED.values(), *(place for parts in packages.PARTS.values() for place in parts.values())]
    assert all(packages.attribute_of(place, "a part") for place in places if not packages.absent_package(place))


def test_a_place_in_the_core_needs_no_package():
    assert packages.absent_package("cli.joint") is None
    there = (CORE / "lab" / "__init__.py").exists()
    assert packages.absent_package("countdown_selfplay.lab.report:write_report") == (None if there else "lab")


def test_the_core_names_what_lies_beside_it_in_two_tables_alone():
    beside = {path for package in packages.BESIDE for path in (CORE / package).rglob("*.py")}
    named = re.compile(rf"""["'](countdown_selfplay\.)?({"|".join(packages.BESIDE)})\.""")
    files = {path for path in CORE.rglob("*.py") if path not in beside and named.search(path.read_text())}
    assert files == {CORE / "packages.py", CORE / "cli" / "commands.py"}


@pytest.mark.slow
def test_without_the_packages_a_run_trains_and_what_is_theirs_is_named(tmp_path):
    copy = without(tmp_path / "copy", *packages.BESIDE)
    stars = "from countdown_selfplay import *; from countdown_selfplay.evaluation import *; summary, pass_at_k"
    assert run(copy, "-c", stars).stderr == ""
    program = ["-m", "countdown_selfplay.cli.main"]
    (folder := tmp_path / "empty").mkdir()
    done = run(copy, *program, "joint", *SHORT, "--output_dir", "runs/x", cwd=folder)
    assert done.returncode == 0 and "countdown_selfplay.lab, which writes it, is not installed" in done.stdout
    assert "pass@1" in done.stdout and (folder / "runs/x/evaluation.json").exists()
    listed = run(copy, *program, "--help").stdout
    assert "(needs lab)" in listed and "(needs warm_starts)" in listed
    assert "joint (needs worlds)" in run(copy, *program, "recipes").stdout
    for line, package in {
        ("arena", "--list"): "lab", ("sft", "--dry_run"): "warm_starts", ("sgs", "--prepare"): "warm_starts",
        ("dataset", "x.jsonl", "--count", "3"): "warm_starts", ("models", "smollm2"): "warm_starts",
        ("eval", "--model", "tiny", "--task", "win_rates"): "lab",
        ("joint", "--domain", "detachment", "--dry_run"): "worlds",
        ("joint", "--conjecturer_reward", "r_zero", "--dry_run"): "lab",
    }.items():  # fmt: skip
        refused = run(copy, *program, *line, cwd=folder)
        last = refused.stderr.strip().splitlines()[-1]
        assert refused.returncode == 2 and f"needs countdown_selfplay.{package}, " in last, (line, refused.stderr)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("package", packages.BESIDE)
def test_the_tests_of_the_core_pass_without_a_package(package, tmp_path):
    copy = without(tmp_path / "copy", package)
    others = [f"--ignore=tests/{one}" for one in (*packages.BESIDE, "vllm", "distributed", "tools")]
    done = run(copy, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", *others, "tests")
    assert done.returncode == 0, done.stdout[-4000:]


@pytest.mark.nightly
def test_a_newcomer_extends_the_core_alone(tmp_path):
    """A reward, an objective, a domain, a proposer and a game, as docs/extending.md writes them."""
    done = run(without(tmp_path / "copy", *packages.BESIDE), "-m", "pytest", "-q", "tests/test_extending.py")
    assert done.returncode == 0 and " passed" in done.stdout and "skipped" not in done.stdout, done.stdout[-4000:]
