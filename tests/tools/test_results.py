# Tests: tools/results, lab/arena/board.py
"""docs/results/ is what tools/results computes from docs/benchmarks/ as they are now."""

import json
from functools import cache
from xml.etree import ElementTree

import numpy as np
import pytest
from tools.results import __main__ as pages
from tools.results import arena, arena_plots, readers, rows
from tools.results.studies import STUDIES

AGAIN = "out of date; run: python -m tools.results"


@cache
def committed():
    return json.loads((pages.FOLDER / "forest.json").read_text(encoding="utf-8"))


def test_the_rows_are_those_of_the_files():
    """All differences, and the intervals of two studies: to draw them all takes longer than a test may."""
    whole = ("Ladder: main study", "Default run")
    found = [row for study in STUDIES for row in rows.rows_of(study, 10_000 if study.name in whole else 2)]
    exact = ("study", "arm", "control", "metric", "seeds")
    for row, stands in zip(found, committed()["rows"], strict=True):
        assert [row[k] for k in exact] == [stands[k] for k in exact], AGAIN
        names = ("difference", "low", "high", "p", "p_holm") if row["study"] in whole else ("difference",)
        assert [row[k] for k in names] == pytest.approx([stands[k] for k in names], abs=1e-3), AGAIN
        assert row["verdict"] == stands["verdict"] or row["study"] not in whole, AGAIN


def test_the_plot_and_the_pages_are_made_from_the_rows_and_print_them_by_hand():
    found = pages.written(committed()["rows"], rows.training_runs())
    assert [path.name for path, text in found.items() if path.read_text(encoding="utf-8") != text] == [], AGAIN
    marked = [path.name for path, text in found.items() if "<!-- computed: " in text]
    drawn = {study.page for study in STUDIES} - {"ladder.md", "too_easy.md"}  # its own table; no control
    assert set(marked) == {*drawn, "index.md", "arena.md", "arena_tables.md", "leaderboard.md"}
    # The default run's table was written by the study's own script.
    text = (pages.FOLDER / "default_run.md").read_text(encoding="utf-8").partition("<!-- computed")[0].replace("*", "")
    own = [row for row in committed()["rows"] if row["study"] == "Default run"]
    told = ["{difference:+.3f} [{low:+.3f}, {high:+.3f}]".format(**row).replace("0.", ".") for row in own]
    assert len(told) == 12 and [cell for cell in told if cell not in text] == []


def test_p_values_are_those_of_students_t_and_of_welch():
    found = [rows.p_of_t(t, f) for t, f in ((2.776, 4), (4.604, 4), (2.306, 8))]
    assert found == pytest.approx([0.05, 0.01, 0.05], rel=1e-3)
    assert rows.p_of_interval(0.02, 0.0, 0.05, 5) == pytest.approx(0.05, rel=1e-4)  # the end towards 0 counts
    assert rows.p_of_interval(-0.02, -0.05, 0.0, 5) == pytest.approx(0.05, rel=1e-4)
    # Means 3 and 1, variances 1 and 1 of three seeds: t = 2 / sqrt(2/3) = 2.449 with 4 degrees, p = .0705.
    values = {"a": np.array([2.0, 3.0, 4.0]), "b": np.array([0.0, 1.0, 2.0])}
    row = rows.measured(readers.Arms({}, lambda arm, metric: values[arm]), "a", "b", "solved", 10)
    assert row["difference"] == 2 and row["p"] == pytest.approx(0.0705, abs=1e-4)


ARENA_AGAIN = f"{AGAIN}, after countdown-selfplay arena --table --output docs/benchmarks/arena"
PAGE = pages.FOLDER / "arena.md"


def test_the_committed_page_and_plots_are_those_of_the_standings():
    found = arena.standings()
    text = PAGE.read_text(encoding="utf-8")
    for page in (PAGE, PAGE.with_name("arena_tables.md")):
        made = stands = page.read_text(encoding="utf-8")
        for name, content in arena.parts(found).items():
            made = pages.between(made, name, content)
        assert made == stands, ARENA_AGAIN
    for name, one in arena_plots.drawn(found).items():
        assert (pages.DOCS / "assets" / name).read_text(encoding="utf-8") == one, ARENA_AGAIN
        assert ElementTree.fromstring(one).tag.endswith("svg") and f"assets/{name}" in text
        assert "nan" not in one
    text = text.replace(arena.parts(found)["arena plane"], "")
    scores = {row["contestant"]: row["score"]["pass@1"]["value"] for row in found["ladder"]["rows"]}
    assert [name for name, value in scores.items() if f"{value:.3f}"[1:] not in text] == []
