# Tests: lab/report/panels.py, evaluation/load.py, lab/report/targets.py, lab/scaling.py
"""The figures of seed 003 from runs whose numbers are written here."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.made_up_runs import edited, printed, run_of, write_lines, write_run

from countdown_selfplay.errors import DataError
from countdown_selfplay.lab.report import targets
from countdown_selfplay.lab.report.panels import drawn
from countdown_selfplay.lab.report.targets import fit_checks, target_figures
from countdown_selfplay.lab.scaling import load_curve


def make_run(name, generations, solved, seed=0, **more):
    rows = [
        {"step": i, "round/generations": g, "targets/solve_rate": s, "targets/pass_at_n": s / 2, **more}
        for i, (g, s) in enumerate(zip(generations, solved, strict=True), start=1)
    ]
    return run_of(rows, name=name, config={"seed": seed, "proposer": name})


def test_a_rate_holds_until_the_next_one_and_is_drawn_against_generations_over_seeds():
    # at 20 the second run still has what it had at 10; before 10 and after 30 only one of them is there
    first = make_run("sgs", [5, 10, 20, 30], [0.0, 0.1, 0.2, 0.4])
    second = make_run("sgs", [10, 25, 40], [0.2, 0.3, 0.5], seed=1)
    x, rate_RX = targets.on_one_grid([targets.solved_by(first), targets.solved_by(second)])
    assert x.tolist() == [10, 20, 25, 30]
    assert rate_RX.tolist() == [[0.1, 0.2, 0.2, 0.4], [0.2, 0.2, 0.3, 0.3]]
    run = make_run("sgs", [10, 20], [0.25, 0.5])
    figure = target_figures([run], {"large": 0.6})["Cumulative solve rate of the targets"]
    curve, level = figure.axes[0].lines[1], figure.axes[0].lines[3]  # each has a line of single points before it
    assert (curve.get_xdata().tolist(), curve.get_ydata().tolist()) == ([10, 20], [0.25, 0.5])
    assert (level.get_xdata().tolist(), level.get_ydata().tolist()) == ([10, 20], [0.6, 0.6])
    assert figure.axes[0].get_xlabel() == "generations"
    runs = [make_run("sgs", [10, 20], [0.2, 0.4 + seed / 5], seed) for seed in range(2)]
    figure = target_figures(runs)["Cumulative solve rate of the targets"]
    assert figure.axes[0].lines[1].get_ydata() == pytest.approx([0.2, 0.5]) and len(figure.axes[0].lines) == 2


def test_the_targets_solved_last_are_a_row_each(tmp_path):
    run = replace(make_run("sgs", [10, 20], [0.2, 0.4]), path=tmp_path)
    story = [["1,2=3", 4, "0011"], ["2,2=4", 2, "01"], ["9,9=1", 1, ""]]  # the last one was solved at once
    (tmp_path / "targets.json").write_text(json.dumps({"solved": story}))
    (figure,) = targets.stories([run]).values()
    (mesh,) = figure.axes[0].collections
    cells = mesh.get_array()
    # by the round that solved them: 01 first, then 0011; what comes after a target was solved is empty
    assert cells.shape == (2, 4) and cells.filled(-1).tolist() == [[0, 1, -1, -1], [0, 0, 1, 1]]
    assert "The 2 targets solved last" in target_figures([run])
    (tmp_path / "targets.json").write_text("[")
    with pytest.raises(DataError, match=r"targets.json' does not hold a JSON object .*; delete it to report without"):
        targets.stories([run])


def test_what_is_solved_beyond_the_baseline_is_counted_on_what_it_never_solved(tmp_path):
    # the baseline never solves c and d; sgs solves c in round 2 and d never; the folder is of a version
    # that counted its two optimizer steps a round
    firsts = {"base": {"a": 1, "b": 2, "c": None, "d": None}, "sgs": {"a": 1, "b": None, "c": 2, "d": None}}
    runs = []
    for name, first in firsts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "first_solved.json").write_text(json.dumps({"rounds": 3, "first_solved": first}))
        run = replace(make_run(name, [10, 20, 30], [0.25, 0.5, 0.5]), path=tmp_path / name)
        run.config.update(domain="math_qa", prover_objective="reinforce_half")
        run.config["conjecturer_players"] = 0 if name == "base" else 1
        runs.append(run)
    ((title, figure),) = targets.beyond_baseline(runs).items()
    assert title == "Of the 2 targets that the baseline never solved"
    heights = [line.get_ydata().tolist() for line in figure.axes[0].lines if len(line.get_xdata())]
    assert heights == [[0.0, 0.0, 0.0], [0.0, 0.5, 0.5]]
    assert targets.beyond_baseline(runs[:1]) == targets.beyond_baseline(runs[1:]) == {}
    curve, compute, _ = load_curve(str(write_curve(tmp_path / "sgs", runs[1])), None, None)
    assert compute == "round/generations" and curve.compute.tolist() == [10, 20, 30]
    assert curve.rate.tolist() == [0.25, 0.5, 0.5]  # a in round 1, c in round 2


def write_curve(folder, run):
    """The files of a run folder that a scaling fit reads."""
    (folder / "run.json").write_text(json.dumps({"config": run.config}))
    rows = [{**row, "round/cumulative_solve_rate": row["targets/solve_rate"]} for row in run.rounds]
    write_lines(folder / "metrics.jsonl", rows)
    return folder


def test_the_fits_are_drawn_without_the_end_and_on_halves():
    # the sigmoid itself, A = .6: every fit to a part of it finds .6
    x = np.linspace(500, 40000, 40)
    x[0] = 0
    rate = 0.1 + 0.5 / (1 + (8000 / np.maximum(x, 1e-9)) ** 1.5)
    # before it two rounds in which new targets were attempted, 3000 generations that are left out
    run = make_run("sgs", [1000, 2000, *(x + 3000)], [0.02, 0.06, *rate])
    for row, share in zip(run.rounds, (0.3, 0.7), strict=False):
        row["targets/attempted"] = share
    found = fit_checks([run])
    labels = [text.get_text() for figure in found.values() for text in figure.legends[0].get_texts()]
    assert labels[0] == "all points: 0.600" and labels[1] == "without the last 10%: 0.600"
    assert [label[-5:] for label in labels[:4]] == ["0.600"] * 4 and len(labels) == 7
    assert labels[4].startswith("0.600 ± 0.000 over") and labels[5] == "highest: 0.600"
    assert fit_checks([make_run("x", [10, 20], [0.1, 0.2])]) == {}


def test_the_targets_are_counted_by_what_they_need_and_by_their_solutions(tmp_path):
    # 2,3=6 is 2 * 3 alone; 2,3=5 is 2 + 3; 2,3=1 is 3 - 2: each has one solution and needs its operation
    first = {"2,3=6": 1, "2,3=5": None, "3,4=12": None, "2,3=1": None}
    (tmp_path / "first_solved.json").write_text(json.dumps({"rounds": 1, "first_solved": first}))
    run = replace(make_run("sgs", [10, 20], [0.2, 0.4]), path=tmp_path)
    found = targets.composition(run)
    kinds, levels = ([[bar.get_height() for bar in group] for group in f.axes[0].containers] for f in found.values())
    assert kinds == [[1, 1, 2, 0, 0, 0], [0, 0, 1, 0, 0, 0]]  # + - * / fraction, none
    assert levels == [[4, 0, 0, 0, 0], [1, 0, 0, 0, 0]]
    # one that has no solution was set aside: it is no target, so 3 are left, and none is among those of 4 numbers
    (tmp_path / "targets.json").write_text(json.dumps({"solved": [], "aside": ["3,4=12"]}))
    assert list(targets.first_solved(run)) == ["2,3=6", "2,3=5", "2,3=1"]
    run.config["domain"] = "math_qa"
    assert targets.composition(run) == {}


def test_what_a_run_did_not_log_is_not_drawn():
    assert target_figures([make_run("x", [], [])]) == {}
    plain = make_run("sgs", [10, 20], [0.25, 0.5])
    assert list(target_figures([plain])) == ["Cumulative solve rate of the targets"]
    assert list(drawn([plain])["Targets"]) == ["Cumulative solve rate of the targets", "Targets solved in a round"]


def test_the_command_takes_yardsticks(tmp_path, capsys):
    folder = write_run(tmp_path, "demo", rounds=3)
    with edited(folder / "metrics.jsonl") as rows:
        for row in rows:
            row |= {"targets/solve_rate": 0.5, "round/generations": 8}
    assert printed(capsys, "report", folder, "--yardstick", "large model=0.6")[0] == 0
    assert "Cumulative solve rate of the targets" in (folder / "report.html").read_text()
    for word in ("large", "large=2", "=0.5", "large=nan"):
        code, _, error = printed(capsys, "report", folder, "--yardstick", word)
        assert code == 2 and f"`--yardstick` ({word}) must be a name and a rate" in error
