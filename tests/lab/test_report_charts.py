# Tests: lab/report/charts.py, evaluation/load.py, lab/report/panels.py, lab/report/pictures.py
"""The way from a metric to a curve and to a picture, against positions and means worked out by hand."""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from countdown_selfplay.evaluation.load import Run
from countdown_selfplay.lab.report.charts import Chart, curve, figures, target_band
from countdown_selfplay.lab.report.panels import drawn, solve_rate_maps
from countdown_selfplay.lab.report.pictures import Curve, cells, line_chart, shade_words, svg

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


@pytest.mark.parametrize(("values", "y_range", "low", "high"), [
    # A twentieth of the range is left free on both sides.
    ((0.03, 0.97), (0, 1), -0.05, 1.05),
    ((-1.0, 1.5), (0, 1), -1.125, 1.625),
    ((1.0, 3.0), (), 0.9, 3.1),
    ((0.0, 1e-4), (0,), -5e-6, 1.05e-4),
    ((2.0, 3.0), (0,), -0.15, 3.15),
])  # fmt: skip
def test_the_axis_shows_all_values_and_the_least_range(values, y_range, low, high):
    (axes,) = line_chart("t", [straight(y=values)], y_range=y_range).axes
    assert axes.get_ylim() == pytest.approx((low, high))
    ticks = [tick for tick in axes.get_yticks() if low <= tick <= high]
    assert len(ticks) >= 4


def test_points_land_where_they_belong_and_a_lonely_one_and_a_constant_are_drawn():
    text = svg(line_chart("t", [straight()], y_range=(0, 1)))
    # The plot runs from x = 50 to 400 - 12 and, without a legend, from y = 250 - 42 up to 26: 338 by 182. Shown are
    # -.2 to 10.2, of which .2 are 338 x .2 / 10.4 = 6.5, and -.05 to 1.05, of which .05 are 182 x .05 / 1.1 = 8.2727.
    assert 'd="M 56.5 199.727273 \nL 381.5 34.272727 \n"' in text
    curves = [straight(x=[3], y=[0.5]), straight(x=range(1, 7), y=[0.2, NAN, 0.3, NAN, 0.4, 0.4])]
    figure = line_chart("t", curves)
    dots = [line.get_xydata().tolist() for line in figure.axes[0].lines if line.get_marker() == "."]
    assert dots == [[[3, 0.5]], [[1, 0.2], [3, 0.3]]]  # rounds 5 and 6 are a line
    assert "nan" not in svg(figure).lower() and "inf" not in svg(figure)


def test_a_band_does_not_change_what_is_shown_and_starved_rounds_are_marked_where_they_happened():
    figure = line_chart("t", [straight()], band=(0.5, 1.7), marks=[0, 5])
    (axes,) = figure.axes
    (patch,) = axes.patches
    assert (patch.get_y(), patch.get_y() + patch.get_height()) == (0.5, 1.7)
    assert axes.get_ylim() == pytest.approx((-0.05, 1.05))
    (marks,) = (line for line in axes.lines if line.get_marker() == "|")
    assert marks.get_xdata().tolist() == [0, 5] and legend(figure) == ["a", "target band", "starved round"]


def test_a_picture_is_valid_xml_whatever_a_users_own_matplotlib_settings(monkeypatch):
    for names, height in (("a", 250), ("ab", 250 + 14)):
        tree = ElementTree.fromstring(svg(line_chart("t", [straight(name) for name in names])))
        (style,) = tree.iter("{http://www.w3.org/2000/svg}style")
        assert "prefers-color-scheme: dark" in style.text
        assert (tree.get("width"), tree.get("viewBox")) == ("400pt", f"0 0 400 {height}")
    import matplotlib

    text = svg(line_chart("t", [straight()]))
    before = dict(matplotlib.rcParams)
    monkeypatch.setitem(matplotlib.rcParams, "lines.linestyle", "--")
    monkeypatch.setitem(matplotlib.rcParams, "font.size", 30)
    assert svg(line_chart("t", [straight()])) == text
    assert {**before, "lines.linestyle": "--", "font.size": 30} == dict(matplotlib.rcParams)


def test_a_heat_map_shades_by_share_and_leaves_empty_columns_grey():
    shares = np.array([[0.25, 0.5, 0.0], [NAN, NAN, NAN], [0.0, 0.125, 0.0]])
    legend_words = shade_words(shares, "of the problems", "0%", "no problem played")
    figure = cells("t", [1, 2, 3, 4], [-0.25, 0.25, 0.75, 1.25], shares.T, legend_words, most=None)
    (mesh,) = figure.axes[0].collections
    figure.draw_without_rendering()
    # The deepest shade, #0b62b0, is the greatest share, 1/2; none is the card, #f7f7f8, a column of NaN is #dcdde1.
    rgb = np.round(mesh.get_facecolors()[:, :3].reshape(3, 3, 3) * 255).astype(int).tolist()
    assert (rgb[1][0], rgb[2][0], rgb[0][1]) == ([0x0B, 0x62, 0xB0], [0xF7, 0xF7, 0xF8], [0xDC, 0xDD, 0xE1])
    # 1/4 is half-way, of 256 shades: f7 + (0b - f7) x 128 / 255 = 129
    assert rgb[0][0][0] == pytest.approx(129, abs=1)
    edges = mesh.get_coordinates()
    assert edges[0, :, 0].tolist() == [1, 2, 3, 4] and edges[:, 0, 1].tolist() == [-0.25, 0.25, 0.75, 1.25]
    assert legend(figure) == ["0%", "50% of the problems", "no problem played"]


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
    assert {title for charts in drawn([run]).values() for title in charts} == {
        "Solve rate of the problems", "Prover's reward",
    }  # fmt: skip
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
