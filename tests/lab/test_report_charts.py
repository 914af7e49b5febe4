# Tests: lab/report/charts.py, evaluation/load.py, lab/report/panels.py, lab/report/pictures.py
"""The way from a metric to a curve and to a picture, against positions and means worked out by hand."""

from pathlib import Path

import numpy as np
import pytest

from countdown_selfplay.evaluation.load import Run
from countdown_selfplay.lab.report.charts import Chart, curve, figures, target_band
from countdown_selfplay.lab.report.panels import drawn, solve_rate_maps
from countdown_selfplay.lab.report.pictures import Curve, cells, line_chart, svg

NAN = float("nan")


def make_run(values, metric="round/solve_rate_mean", **changes):
    """A run with one round per value; None is a round without the metric."""
    rounds = [
        {"step": float(i), "prover/reward": 0.5, **({} if value is None else {metric: value})}
        for i, value in enumerate(values, start=1)
    ]
    fields = dict(name="r", started="", config={}, environment={}, rounds=rounds, histograms={}, others=[])
    return Run(**{"path": Path("no folder"), **fields, **changes})


def straight(label="a", x=(0, 10), y=(0.0, 1.0)):
    return Curve(label, np.array(x, dtype=float), np.array(y))


def drawn_lines(figure, width):
    """Colour, x and y of the lines of a width: 1 single rounds, 2 their means."""
    (axes,) = figure.axes
    lines = [line for line in axes.lines if line.get_linewidth() == width and line.get_linestyle() == "-"]
    return [(line.get_color(), line.get_xdata().tolist(), line.get_ydata().tolist()) for line in lines]


def legend(figure):
    return [text.get_text() for one in figure.legends for text in one.get_texts()]


def test_a_band_does_not_change_what_is_shown_and_starved_rounds_are_marked_where_they_happened():
    figure = line_chart("t", [straight()], band=(0.5, 1.7), marks=[0, 5])
    (axes,) = figure.axes
    (patch,) = axes.patches
    assert (patch.get_y(), patch.get_y() + patch.get_height()) == (0.5, 1.7)
    assert axes.get_ylim() == pytest.approx((-0.05, 1.05))
    (marks,) = (line for line in axes.lines if line.get_marker() == "|")
    assert marks.get_xdata().tolist() == [0, 5] and legend(figure) == ["a", "target band", "starved round"]


def test_a_lonely_point_is_a_dot():
    figure = line_chart("t", [straight(x=range(1, 7), y=[0.2, NAN, 0.3, NAN, 0.4, 0.4])])
    dots = [line.get_xdata().tolist() for line in figure.axes[0].lines if line.get_marker() == "."]
    assert dots == [[1, 3]]  # rounds 5 and 6 are a line


def test_a_cell_of_no_share_is_pale_and_one_without_a_value_grey():
    figure = cells("t", [0, 1, 2], [0, 1], np.array([[0.0, NAN]]), [])
    figure.draw_without_rendering()
    shades = np.round(figure.axes[0].collections[0].get_facecolors()[:, :3] * 255).astype(int).tolist()
    assert shades == [[0xF7, 0xF7, 0xF8], [0xDC, 0xDD, 0xE1]]


def test_a_picture_is_the_same_whatever_a_users_own_matplotlib_settings(monkeypatch):
    import matplotlib

    text = svg(line_chart("t", [straight()]))
    before = dict(matplotlib.rcParams)
    monkeypatch.setitem(matplotlib.rcParams, "lines.linestyle", "--")
    monkeypatch.setitem(matplotlib.rcParams, "font.size", 30)
    assert svg(line_chart("t", [straight()])) == text
    assert {**before, "lines.linestyle": "--", "font.size": 30} == dict(matplotlib.rcParams)


def test_the_running_mean_takes_only_rounds_that_have_a_value_and_keeps_gaps_and_ends():
    found = curve([make_run([0.1, 0.2, None, 0.4])], "round/solve_rate_mean", "x")
    assert found.x.tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(found.y, [0.1, 0.2, NAN, 0.4])
    # 40 rounds: one neighbour on each side. Round 3 is starved: round 2 averages 1 and 2, round 4 averages 4 and 5.
    values = [0.0, 0.6, None, 0.2, 0.4] + [0.4] * 35
    found = curve([make_run(values)], "round/solve_rate_mean", "x")
    means = [(0.0 + 0.6) / 2, (0.0 + 0.6) / 2, NAN, (0.2 + 0.4) / 2, (0.2 + 0.4 + 0.4) / 3]
    np.testing.assert_allclose(found.y[:5], means, rtol=1e-12)
    np.testing.assert_array_equal(found.raw[:5], [0.0, 0.6, NAN, 0.2, 0.4])
    values = [0.5] * 5000
    values[2002] = None
    found = curve([make_run(values)], "round/solve_rate_mean", "x")
    assert len(found.x) <= 604 and (found.x[0], found.x[-1]) == (1, 5000)
    assert found.x[np.isnan(found.y)].tolist() == [2003] and {2002, 2003} <= set(found.x)
    assert found.raw is None


def test_there_is_one_chart_per_metric_that_is_there_with_a_curve_for_each_run():
    run = make_run([0.5, 0.6])
    titles = [title for charts in drawn([run]).values() for title in charts]
    assert sorted(titles) == ["Prover's reward", "Solve rate of the problems"]
    assert solve_rate_maps([run]) == {}
    chart = Chart("T", (("prover/reward", "mean"), ("prover/absent", "absent"), ("round/solve_rate_mean", "rate")))
    found = figures(chart, [make_run([0.1, 0.2], name="first"), make_run([0.3, 0.4], name="second")])
    assert list(found) == ["T: mean", "T: rate"]
    figure = found["T: rate"]
    assert drawn_lines(figure, 2) == [("C0", [1, 2], [0.1, 0.2]), ("C1", [1, 2], [0.3, 0.4])]
    assert drawn_lines(figure, 1) == [] and legend(figure) == ["first", "second"]


@pytest.mark.parametrize(("config", "expected"), [
    # max(0, 1 - 2.5 |p - .4|) >= 1/2 where |p - .4| <= .2
    ({"conjecturer_reward": "tent"}, (0.2, 0.6)),
    ({"conjecturer_reward": "tent", "conjecturer_reward_kwargs": {"peak": 0.5}}, (0.3, 0.7)),
    ({"conjecturer_reward": "binary_band", "conjecturer_reward_kwargs": '{"low": 0.05, "high": 0.75}'}, (0.05, 0.75)),
    # 4 p (1 - p) >= 1/2 where |p - 1/2| <= 1 / sqrt(8) = .3536; on a grid of thousandths
    ({"conjecturer_reward": "learnability"}, (0.147, 0.853)),
    ({"conjecturer_reward": "mine"}, None),
    ({"conjecturer_reward": "tent", "conjecturer_reward_kwargs": {"width": 1}}, None),
    ({"conjecturer_reward": "tent", "conjecturer_reward_kwargs": "{"}, None),
    ({}, None),
])  # fmt: skip
def test_the_target_band_is_where_the_reward_is_at_least_half_its_peak(config, expected):
    found = target_band(make_run([0.5], config=config))
    assert found == (None if expected is None else pytest.approx(expected, abs=1e-9))
