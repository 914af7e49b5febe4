# Tests: tools/results, lab/arena/board.py
"""docs/results/arena.md says what the files of the jobs under docs/benchmarks/arena say."""

import json
import re
from xml.etree import ElementTree

import pytest
from tools.results import __main__ as pages
from tools.results import arena, arena_plots, plane_plot
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


def test_a_curve_ends_where_the_answers_of_the_track_end_and_labels_keep_a_distance():
    points = [{"answers": at, "pass@1": {"value": value}} for at, value in ((0, 0.0), (40, 0.2), (80, 0.6))]
    # a quarter of the way from 40 to 80
    assert arena_plots.until(points, 50)[-1] == pytest.approx({"answers": 50, "value": 0.3, "low": 0.3, "high": 0.3})
    assert len(arena_plots.until(points, 80)) == 3
    assert arena_plots.spread([1, 2, 30], 11) == [1, 12, 30]


def test_a_cell_of_the_plane_is_a_mean_over_its_problems_and_a_bar_a_share_of_what_was_played():
    facts = {"measured": [4, 5], "bands": {"target": ["1-5", "6-12"]}, "samples": 16}
    problems = [([1] * 4, 5), ([1] * 4, 1), ([1] * 4, 6), ([1] * 5, 3), ([1] * 5, 12)]
    cells = [
        plane_plot.cell_of({"numbers": numbers, "target": target}, facts["measured"], facts["bands"]["target"])
        for numbers, target in problems
    ]
    assert cells == [(0, 0), (0, 0), (0, 1), (1, 0), (1, 1)]
    assert plane_plot.mean_by_cell([8, 0, 16, 4, 12], cells, facts).tolist() == [[0.25, 1.0], [0.25, 0.75]]
    job = {"played": {"1-5": [9, 3, 1, 0, 0], "6-12": [1, 1, 3, 5, 5]}}
    assert plane_plot.played([job, job], ["1-5", "6-12"], 2) == [0.75, 0.25]  # the second of five points
