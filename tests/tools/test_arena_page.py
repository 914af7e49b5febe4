# Tests: tools/results, lab/arena/board.py
"""docs/results/arena.md says what the files of the jobs under docs/benchmarks/arena say."""

import json
import re
from xml.etree import ElementTree

import pytest
from tools.results import __main__ as pages
from tools.results import arena, arena_plots
from tools.results.readers import DATA

AGAIN = "out of date; run: countdown-selfplay arena --table --output docs/benchmarks/arena; python -m tools.results"
PAGE = pages.FOLDER / "arena.md"


def jobs(track):
    own = [p for p in (DATA / "arena" / track).glob("*.json") if not p.name.endswith(".failed.json")]
    return [json.loads(path.read_text(encoding="utf-8")) for path in own]


def mean_rate(own):
    """pass@1 is right answers / answers, and every scored size has equally many problems."""
    facts = own[0]["facts"]
    each = facts["sets"]["held_out"]["each"]
    scored = [i * each + j for i, rung in enumerate(facts["measured"]) if rung in facts["rungs"] for j in range(each)]
    return sum(job["correct"][i] / job["n"] for job in own for i in scored) / len(scored) / len(own)


@pytest.mark.parametrize("track", arena.standings())
def test_pass_at_1_and_costs_of_the_tables_are_the_means_of_the_job_files(track):
    section = PAGE.read_text(encoding="utf-8").partition(f"### Track `{track}`")[2].partition("\n### ")[0]
    of = {}
    for job in jobs(track):
        of.setdefault(job["contestant"], []).append(job)
    assert of.keys() == {row["contestant"] for row in arena.standings()[track]["rows"]}, AGAIN
    for name, own in of.items():
        cells = re.search(rf"^\| (?:\d+|–) \| {name} \| (\d+) \| ([\d.]+)", section, flags=re.MULTILINE)
        assert int(cells[1]) == len(own), AGAIN
        assert float(cells[2]) == pytest.approx(mean_rate(own), abs=0.00051), AGAIN
        answers = sum(job["answers"] + job["uncounted_answers"] for job in own) / len(own)
        told = re.search(rf"^\| {name} \| ([\d,]+) \|", section, flags=re.MULTILINE)[1].replace(",", "")
        counted = sum(job["answers"] for job in own) / len(own)
        assert float(told) in (round(counted), round(answers)), AGAIN


def test_the_committed_page_and_plots_are_those_of_the_standings():
    found = arena.standings()
    text = PAGE.read_text(encoding="utf-8")
    made = text
    for name, content in arena.parts(found).items():
        made = pages.between(made, name, content)
    assert made == text, AGAIN
    for name, one in arena_plots.drawn(found).items():
        assert (pages.DOCS / "assets" / name).read_text(encoding="utf-8") == one, AGAIN
        assert ElementTree.fromstring(one).tag.endswith("svg") and f"assets/{name}" in text
        assert "nan" not in one
    text = PAGE.read_text(encoding="utf-8").partition("<!-- computed")[0]
    scores = {row["contestant"]: row["score"]["pass@1"]["value"] for row in arena.standings()["ladder"]["rows"]}
    assert [name for name, value in scores.items() if f"{value:.3f}"[1:] not in text] == []
