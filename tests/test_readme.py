# Tests: README.md, tools/readme.py
"""The README is short, fetches nothing, and each number in it is that of a file under docs/benchmarks."""

import contextlib
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

from countdown_selfplay.cli.commands import NAMES
from tools import readme

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT / "docs" / "benchmarks"
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
PROSE = re.sub(r"^```.*?^```$", "", TEXT, flags=re.MULTILINE | re.DOTALL)


def load(path):
    return json.loads((BENCHMARKS / path).read_text(encoding="utf-8"))


def arena(track, contestant):
    """pass@1 on the scored sizes, from the counts of the ten jobs of a contestant."""
    jobs = [load(path) for path in (BENCHMARKS / "arena" / track).glob(f"{contestant}-*.json")]
    assert len(jobs) == 10
    facts = jobs[0]["facts"]
    each = facts["sets"]["held_out"]["each"]
    starts = [i * each for i, rung in enumerate(facts["measured"]) if rung in facts["rungs"]]
    return np.mean([np.mean(job["correct"][start : start + each]) / job["n"] for job in jobs for start in starts])


def default_run(arm):
    seeds = load("default_run_counts.json")["arms"][arm]
    return np.mean([np.mean(seed["correct"]) / seed["n"] for seed in seeds])


def sgs(arm):
    return load("sgs_study.json")["arms"][arm]["solve_rate"]


def pretrained(name):
    return load(f"pretrained/{name}.json")["pass_at"]["1"]["value"]


MEASURED = {
    "6.8%": lambda: arena("ladder", "trained_hard"),
    "4.2%": lambda: arena("ladder", "plain"),
    "29.7%": lambda: default_run("after"),
    "29.9%": lambda: default_run("control"),
    "82.7%": lambda: sgs("sgs"),
    "89.6%": lambda: sgs("parallel_sampling"),
    "9.7%": lambda: pretrained("start-2"),
    "18.7%": lambda: pretrained("trained-2"),
    "14.7%": lambda: pretrained("placebo-2"),
    "17.1%": lambda: pretrained("uniform-2"),
}
"""Each decimal of the text that is not of a version, and what it is computed from."""


def test_it_is_short():
    assert 90 <= len(TEXT.splitlines()) <= 110
    words = re.sub(r"<[^>]*>|\]\([^)]*\)", " ", PROSE).split()
    assert len([word for word in words if re.search(r"\w", word)]) <= 900
    assert len(re.findall(r"\d*\.\d+", PROSE)) <= 20


def test_its_pictures_are_files_of_the_repository_and_fetch_nothing():
    images = re.findall(r'<img src="([^"]+)"', TEXT)
    assert len(set(images)) >= 3 and "![" not in TEXT
    for image in images:
        assert (
            re.findall(r"""(?:href|src)="(?!#)|url\((?!#)|@import""", (ROOT / image).read_text(encoding="utf-8")) == []
        )


def test_every_decimal_is_measured():
    versions = {"3.11", "1.16", "2.0"}  # of Python, TRL and the licence, which are those of the badges
    assert set(re.findall(r"\d*\.\d+%?", PROSE)) == {*MEASURED, *versions}
    assert {shown: f"{value():.1%}" for shown, value in MEASURED.items()} == {shown: shown for shown in MEASURED}
    badges = "".join(readme.badges().values())
    assert [version for version in versions if version not in badges] == []


def test_what_is_said_to_lose_pass_at_16_does():
    """Every arm whose proposer estimates difficulty is below RLOO in pass@16, three seeds of 1,024 problems."""
    arms = load("symbolic_again_counts.json")["arms"]
    pass_at_16 = {arm: np.mean([np.mean(np.array(seed["correct"]) > 0) for seed in arms[arm]]) for arm in arms}
    assert all(pass_at_16[arm] < pass_at_16["rloo"] for arm in ("trained", "frozen", "uniform"))


def systems():
    """(command, minutes) of each row of the table of systems."""
    section = TEXT.split("## Six systems")[1].split("\n## ")[0]
    return re.findall(r"\| `([^`]+)` \| (\d+) \|$", section, re.MULTILINE)


def test_the_minutes_are_those_of_the_measured_commands():
    measured = {
        " && ".join(run["command"] for run in runs): max(1, round(sum(run["cpu_seconds"] for run in runs) / 60))
        for runs in load("first_runs.json")["systems"].values()
    }
    shown = {re.sub("countdown-selfplay ", "", command): int(n) for command, n in systems()}
    assert shown == measured


def test_its_commands_exist():
    for program, first in (part.split()[:2] for command, _ in systems() for part in command.split(" && ")):
        assert first in NAMES if program == "countdown-selfplay" else (ROOT / first).exists()


def test_its_python_prints_what_is_shown(tmp_path, monkeypatch):
    """Words are compared, problems within 20 and shares within 5 points: another processor may round otherwise."""
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    (shown,) = re.findall(r"^```text\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, "README.md", "exec"), {})
    lines = [line for line in said.getvalue().splitlines() if "of the answers right" in line]
    assert [re.sub(r"\d+", "N", line) for line in lines] == [re.sub(r"\d+", "N", line) for line in shown.splitlines()]
    for line, wanted in zip(lines, shown.splitlines(), strict=True):
        for number, other, within in zip(re.findall(r"\d+", line), re.findall(r"\d+", wanted), (20, 5), strict=True):
            assert abs(int(number) - int(other)) <= within, line


def test_what_needs_an_address_is_absent_until_there_is_one():
    address = readme.repository()
    for place in readme.PLACES:
        page = (ROOT / place).read_text(encoding="utf-8")
        assert readme.with_links(page, address) == page, "run: python -m tools.readme"
        assert "<!-- repository -->\n<!-- /repository -->" in readme.with_links(page, "")
        known = readme.with_links(page, "https://github.com/a/b")
        assert "git clone https://github.com/a/b\n" in known and readme.with_links(known, "") == readme.with_links(
            page, ""
        )
        link = "https://colab.research.google.com/github/a/b/blob/main/examples/notebooks/quickstart.ipynb"
        assert f"[quickstart]({link})" in known
    assert "colab" not in readme.with_links(TEXT, "https://example.org/b")  # Colab opens GitHub alone


@pytest.mark.parametrize("name", ["python", "trl", "licence"])
def test_the_badges_say_what_the_project_declares(name):
    drawn = (readme.BADGES / f"{name}.svg").read_text(encoding="utf-8")
    assert drawn == readme.badges()[f"{name}.svg"], "run: python -m tools.readme"
