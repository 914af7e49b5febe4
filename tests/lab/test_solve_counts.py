# Tests: lab/report/panels.py, evaluation/load.py
"""The histogram of right answers per problem, and what it says of a mode collapse."""

import json

import pytest
from tests.made_up_runs import write_run

from countdown_selfplay.evaluation.load import load_runs
from countdown_selfplay.lab.report.panels import drawn, solve_counts


def test_solve_counts_are_drawn_before_and_after_where_they_were_counted(tmp_path):
    """Seed 001, section 5.2: 50 problems of 16 answers; 12 of 16 is often, 11 is not."""
    correct = [0] * 19 + [12] * 10 + [16] * 9 + [1] * 6 + [11] * 6
    shares, words = solve_counts(correct, 16)
    assert words == "38% never, 38% often"  # 19 of 50 each
    assert (shares * 50).tolist() == pytest.approx([19, 6, *[0] * 9, 6, 10, 0, 0, 0, 9])
    title = "Held-out problems by right answers"
    folder = write_run(tmp_path / "run")
    assert title not in drawn(load_runs([folder]))["Prover"]
    path = folder / "evaluation.json"
    written = json.loads(path.read_text())
    for when, correct in (("before", [0, 8]), ("after", [16, 16])):
        written[when]["prover"]["correct"] = correct
    path.write_text(json.dumps(written))
    figure = drawn(load_runs([folder]))["Prover"][title]
    (axes,) = figure.axes
    # two problems: before one at 0 and one at 8 of 16, after both at 16
    before, after = (line.get_ydata() for line in axes.lines if len(line.get_ydata()) == 17)
    assert (before[0], before[8], after[16]) == (0.5, 0.5, 1.0)
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == ["before: 50% never, 0% often", "after: 0% never, 100% often"]
