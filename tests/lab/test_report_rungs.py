# Tests: lab/report/panels.py, evaluation/load.py
"""The heat map rung by round: what it shows of a run, and that it stands in the report."""

import json

import numpy as np
import pytest
from tests.made_up_runs import write_run

from countdown_selfplay.evaluation.summary import by_rung as by_rung_of
from countdown_selfplay.evaluation.summary import ladder, write_evaluation
from countdown_selfplay.evaluation.terminal import before_after_table
from countdown_selfplay.lab.report import load_run, write_report
from countdown_selfplay.lab.report.panels import MEASURED, PLAYED, rung_data, rung_maps
from countdown_selfplay.lab.report.tables import results


def logged(path, rounds, evaluations=()):
    """A run whose rounds say of each rung (proposed, played, solve rate)."""
    lines = []
    for step, by_rung in enumerate(rounds, start=1):
        line = {"step": step, "round/starved": 0.0}
        for rung, (proposed, played, rate) in by_rung.items():
            line |= {f"round/rung_{rung}_proposed": proposed, f"round/rung_{rung}_played": played}
            line |= {} if rate is None else {f"round/rung_{rung}_solve_rate": rate}
        lines.append(line)
    lines += [{"step": s, **{f"eval_pass@1/rung_{k}": v for k, v in by.items()}} for s, by in evaluations]
    folder = write_run(path, rounds=1, evaluated=False)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


ROUNDS = [
    {3: (6, 4, 0.5), 4: (2, 0, None), 5: (0, 0, None), 20: (0, 0, None)},
    {3: (0, 0, None), 4: (4, 2, 0.25), 5: (4, 2, 0.0), 20: (0, 0, None)},
]


def test_rounds_show_what_was_played_and_proposed_in_shared_columns(tmp_path):
    found = rung_data(load_run(logged(tmp_path, ROUNDS)))
    assert (found.rungs, found.starts, found.end, found.measured) == ([3, 4, 5], [1, 2], 3, False)  # 20 never occurs
    np.testing.assert_array_equal(found.rates_CR, [[0.5, np.nan, np.nan], [np.nan, 0.25, 0.0]])
    assert found.marks == [1.0, 2.0]
    np.testing.assert_allclose(found.shares_MR, [[6 / 8, 2 / 8, 0], [0, 4 / 8, 4 / 8]])
    # 120 rounds: two to a column, six to a mark. Odd rounds solve 1 problem of rung 3, even ones none of 3.
    rounds = [{3: (1, 1, 1.0), 4: (1, 0, None)}, {3: (0, 3, 0.0), 4: (1, 0, None)}] * 60
    found = rung_data(load_run(logged(tmp_path / "many", rounds)))
    assert found.starts == list(range(1, 121, 2)) and found.marks[:2] == [3.5, 9.5] and len(found.marks) == 20
    np.testing.assert_allclose(found.rates_CR[:, 0], 0.25)  # 1 of 4
    np.testing.assert_allclose(found.shares_MR, [[3 / 9, 6 / 9]] * 20)
    assert rung_maps([load_run(write_run(tmp_path / "none", rounds=3))]) == {}
    assert rung_data(load_run(logged(tmp_path / "one", [{3: (1, 1, 0.5)}]))) is None


def test_evaluations_stand_before_what_was_played(tmp_path):
    evaluations = [(1, {3: 0.3, 4: 0.1}), (2, {3: 0.6, 4: 0.2})]
    folder = logged(tmp_path, ROUNDS, evaluations)
    found = rung_data(load_run(folder))
    assert (found.rungs, found.starts, found.end, found.measured) == ([3, 4, 5], [1, 1.5], 2, True)
    np.testing.assert_array_equal(found.rates_CR, [[0.3, 0.1, np.nan], [0.6, 0.2, np.nan]])
    side = {"pass_at": {"1": {"value": 0.2, "low": 0.1, "high": 0.3}}, "problems": 2, "n": 4, "correct": [0, 4]}
    by_rung = {"3": {"pass_at": {"1": {"value": 0.2}}}, "4": {"pass_at": {"1": {"value": 0.05}}}}
    measured = {"before": {"prover": {**side, "by_rung": by_rung}}, "after": {"prover": side}, "difference": {}}
    (folder / "evaluation.json").write_text(json.dumps(measured))
    found = rung_data(load_run(folder))
    assert found.starts == [0, 0.5, 1.5]
    np.testing.assert_array_equal(found.rates_CR[0], [0.2, 0.05, np.nan])


@pytest.mark.parametrize(("evaluations", "title"), [((), PLAYED), ([(2, {3: 0.5, 4: 0.0})], MEASURED)])
def test_the_picture_stands_in_the_report(tmp_path, evaluations, title):
    folder = logged(tmp_path, ROUNDS, evaluations)
    page = write_report([folder], tmp_path / "report.html").read_text()
    assert f'aria-label="{title}"' in page and "half of the proposals" in page
    assert any(path.name.startswith("rungs-") for path in (folder / "plots").iterdir())


def test_the_table_of_the_page_has_the_rows_of_the_terminal(tmp_path):
    """Two problems of rung 4 and two of 5 with one right answer of 2 more at 4; of rung 9 nobody solves one."""
    folder = write_run(tmp_path, "ladder", rounds=5)

    def side(*correct):
        figures = by_rung_of(correct, [4, 4, 5, 5, 9, 9], 2, (1, 2))
        prover = {"n": 2, "correct": correct, "by_rung": figures, "ladder": ladder(figures, (1, 2))}
        prover["pass_at"] = {"1": {"value": 0.2, "low": 0.1, "high": 0.3}}
        return {"prover": prover, "conjecturer": {"as_asked": {"value": 0.5, "low": 0.4, "high": 0.6}}}

    result = write_evaluation(folder, side(0, 0, 1, 1, 0, 0), side(1, 1, 1, 1, 0, 0))
    table = results([load_run(folder)])
    labels = [row[0] for row in table.rows]
    assert labels == [line.split("  ")[0] for line in before_after_table(result).splitlines()[2:]]
    assert labels[:2] == ["prover pass@1", "prover pass@1, rungs 4, 5, 9"] and labels[-1] == "conjecturer as asked"
    rows = dict(zip(labels, table.rows, strict=True))
    assert rows["prover pass@1, rung 4"][3].difference == 0.5 and rows["prover, rung 9"][1:] == ["0", "0", ""]
    page = write_report([folder], tmp_path / "r.html").read_text()
    assert all(label in page for label in labels)
    again = write_run(tmp_path, "other", rounds=5)  # beside one without rungs
    assert "prover, rung 9" in write_report([folder, again], tmp_path / "two.html").read_text()
