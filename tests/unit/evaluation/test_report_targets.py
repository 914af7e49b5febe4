"""The figures of seed 003 from runs whose numbers are written here."""

import numpy as np
import pytest

from countdown_selfplay.cli.main import main
from countdown_selfplay.evaluation.report.load import Run
from countdown_selfplay.evaluation.report.targets import solved_by, target_figures

from .made_up_runs import write_run


def make_run(name, generations, solved, seed=0, **more):
    rows = [
        {"step": i, "round/generations": g, "targets/solve_rate": s, "targets/pass_at_n": s / 2, **more}
        for i, (g, s) in enumerate(zip(generations, solved, strict=True), start=1)
    ]
    fields = dict(path=None, name=name, started="", environment={}, histograms={}, others=[])
    return Run(config={"seed": seed, "proposer": name}, rounds=rows, **fields)


def lines(figure):
    return {line.get_label(): line for line in figure.axes[0].lines}


def test_a_rate_holds_until_the_next_one_and_runs_are_compared_where_all_have_one():
    # at 20 the second run still has what it had at 10; before 10 and after 30 only one of them is there
    first = make_run("sgs", [5, 10, 20, 30], [0.0, 0.1, 0.2, 0.4])
    second = make_run("sgs", [10, 25, 40], [0.2, 0.3, 0.5], seed=1)
    x, rate_RX = solved_by([first, second])
    assert x.tolist() == [10, 20, 25, 30]
    assert rate_RX.tolist() == [[0.1, 0.2, 0.2, 0.4], [0.2, 0.2, 0.3, 0.3]]


def test_the_cumulative_rate_is_drawn_against_generations_with_yardsticks():
    run = make_run("sgs", [10, 20], [0.25, 0.5])
    figure = target_figures([run], {"large": 0.6})["Cumulative solve rate of the targets"]
    curve, level = figure.axes[0].lines[1], figure.axes[0].lines[3]  # each has a line of single points before it
    assert (curve.get_xdata().tolist(), curve.get_ydata().tolist()) == ([10, 20], [0.25, 0.5])
    assert (level.get_xdata().tolist(), level.get_ydata().tolist()) == ([10, 20], [0.6, 0.6])
    assert figure.axes[0].get_xlabel() == "generations"


def test_what_a_run_did_not_log_is_not_drawn():
    assert target_figures([make_run("x", [], [])]) == {}
    plain = target_figures([make_run("sgs", [10, 20], [0.25, 0.5])])
    assert list(plain) == ["Cumulative solve rate of the targets", "Targets solved in a round"]
    parts = {"round/reward_r_solve": 0.5, "targets/trainable": 3.0, "guide/format_rate": 0.9}
    bins = {f"targets/presolve_{k}": k / 10 for k in range(10)}
    found = target_figures([make_run("sgs", [10, 20], [0.25, 0.5], **parts, **bins)])
    assert len(found) == 6
    bars = found["Trainable synthetic problems before a target is solved"].axes[0].lines[1]
    assert np.allclose(bars.get_ydata(), np.arange(10) / 10) and bars.get_xdata().tolist() == list(range(1, 11))


def test_the_command_takes_yardsticks(tmp_path, capsys):
    folder = write_run(tmp_path, "demo", rounds=3)
    more = '"targets/solve_rate": 0.5, "round/generations": 8, "step"'
    text = (folder / "metrics.jsonl").read_text().replace('"step"', more)
    (folder / "metrics.jsonl").write_text(text)
    assert main(["report", str(folder), "--yardstick", "large model=0.6"]) == 0
    assert "Cumulative solve rate of the targets" in (folder / "report.html").read_text()
    for word in ("large", "large=2", "=0.5", "large=nan"):
        assert main(["report", str(folder), "--yardstick", word]) == 2
        assert f"`--yardstick` ({word}) must be a name and a rate" in capsys.readouterr().err


@pytest.mark.parametrize("seeds", [2])
def test_seeds_of_an_arm_are_one_curve(seeds):
    runs = [make_run(f"sgs-{seed}", [10, 20], [0.2, 0.4 + seed / 5], seed) for seed in range(seeds)]
    for run in runs:
        run.config["proposer"] = "targets"
    figure = target_figures(runs)["Cumulative solve rate of the targets"]
    assert figure.axes[0].lines[1].get_ydata() == pytest.approx([0.2, 0.5]) and len(figure.axes[0].lines) == 2
