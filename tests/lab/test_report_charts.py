# Tests: lab/report/charts.py, evaluation/load.py, lab/report/panels.py, lab/report/pictures.py, lab/report/page.py
"""The way from a metric to a curve and to a picture, against positions and means worked out by hand; and runs that
differ only in the seed: one arm, a band, a comparison with intervals."""

import json
import re
from html import unescape

import numpy as np
import pytest
from tests.made_up_answers import counted
from tests.made_up_runs import edited, run_of, write_lines, write_run

from countdown_selfplay.lab.report import load_runs
from countdown_selfplay.lab.report.charts import Chart, arms_of, curve, figures, over_seeds, target_band
from countdown_selfplay.lab.report.page import page
from countdown_selfplay.lab.report.panels import drawn, solve_rate_maps
from countdown_selfplay.lab.report.pictures import Curve, cells, line_chart, svg
from countdown_selfplay.lab.report.tables import gains
from countdown_selfplay.statistics.bootstrap import Interval, holm, two_sided_p

NAN = float("nan")


def make_run(values, metric="round/solve_rate_mean", **changes):
    """A run with one round per value; None is a round without the metric."""
    rounds = [
        {"step": float(i), "prover/reward": 0.5, **({} if value is None else {metric: value})}
        for i, value in enumerate(values, start=1)
    ]
    return run_of(rounds, **changes)


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


def write_seeds(tmp_path, name, numbers=(0, 1, 2), counts=None, **config):
    """Runs whose config says their seed; with `counts`, right answers of 4 on as many problems after training."""
    folders = []
    for i in numbers:
        folder = write_run(tmp_path, f"{name}-seed{i}", rounds=30, **config)
        with edited(folder / "run.json") as run:
            run["config"]["seed"] = i
        if counts is not None:
            with edited(folder / "evaluation.json") as found:
                for when in ("before", "after"):
                    found[when]["prover"] |= counted([min(c + i % 2, 4) for c in counts])
        folders.append(folder)
    return folders


def test_two_seeds_give_their_range_and_p_values_by_hand():
    assert over_seeds([0.2, 0.6]) == type(over_seeds([0.2, 0.6]))(pytest.approx(0.4), 0.2, 0.6)
    # .01 x 3, .02 x 2, .03 x 1 but not below .04; the order of the input is kept.
    assert holm([0.03, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.9, 0.8]) == [1.0, 1.0] and holm([]) == []
    # 2 of 9 draws at or below 0: 2 (2 + 1) / (9 + 1)
    assert two_sided_p(np.array([-1.0, 0.0, 1, 2, 3, 4, 5, 6, 7]), 16) == pytest.approx(0.6)
    assert two_sided_p(np.zeros(9), 16) == 1.0


def test_runs_are_grouped_by_everything_but_the_seed_and_equal_gains_keep_their_intervals(tmp_path):
    folders = write_seeds(tmp_path, "tent") + write_seeds(tmp_path, "band", (0, 1), conjecturer_reward="binary_band")
    arms = arms_of(load_runs(folders))
    assert [(arm.name, len(arm.runs)) for arm in arms] == [("tent (3 seeds)", 3), ("band (2 seeds)", 2)]
    twice = [write_run(tmp_path, name, rounds=5) for name in ("one", "again")]  # equal seeds too
    assert [arm.name for arm in arms_of(load_runs(twice))] == ["one", "again"]
    # Three seeds that all gained .1: Student's t has no width, and the runs' own intervals reach from .08 to .12.
    for folder in (runs := write_seeds(tmp_path, "a")):
        assert json.loads((folder / "evaluation.json").read_text())["difference"]["pass@1"] == [0.1, 0.08, 0.12]
    table = gains(arms_of(load_runs(runs)))
    assert table.rows[0] == ["pass@1", Interval(pytest.approx(0.1), 0.08, 0.12)]


def test_an_arms_curve_is_the_mean_with_a_band(tmp_path):
    folders = write_seeds(tmp_path, "a")
    for folder, level in zip(folders, (0.2, 0.3, 0.7), strict=True):
        write_lines(folder / "metrics.jsonl", [{"step": s, "prover/reward": level} for s in range(1, 6)])
    (arm,) = arms_of(load_runs(folders))
    found = curve(arm.runs, "prover/reward", arm.name)
    assert found.x.tolist() == [1, 2, 3, 4, 5] and found.y == pytest.approx([0.4] * 5)
    # Deviations -.2, -.1, .3: standard deviation sqrt(.07), half-width 4.3027 sqrt(.07 / 3) = .6573
    assert (found.low[0], found.high[0]) == pytest.approx((0.4 - 0.6573, 0.4 + 0.6573), abs=1e-4)
    clipped = curve(arm.runs, "prover/reward", arm.name, share=True)
    assert (clipped.low[0], clipped.high[0]) == (0.0, 1.0)
    (axes,) = figures(Chart("Reward", (("prover/reward", "mean"),)), arm.runs)["Reward"].axes
    (band,) = axes.collections
    (mean,) = (line for line in axes.lines if len(line.get_xdata()))
    assert mean.get_ydata() == pytest.approx([0.4] * 5)
    assert band.get_paths()[0].get_extents().extents == pytest.approx([1, 0.4 - 0.6573, 5, 0.4 + 0.6573], abs=1e-4)


def test_the_page_compares_arms_with_intervals_and_says_what_the_bands_are(tmp_path):
    first = write_seeds(tmp_path, "tent", counts=[0, 1, 2, 1])
    second = write_seeds(tmp_path, "band", counts=[2, 3, 4, 3], conjecturer_reward="binary_band")
    html = page(load_runs(first + second), {"Curriculum": {"a chart": "<svg/>"}})
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))
    assert "Comparison" in text and "band (3 seeds) pass@1" in text
    # Every problem of band has 2 more right answers of 4; seed 1 adds one more where there is room (not on the third):
    # (2 + 2 + 2 + 2) / 16 = .5 for seeds 0 and 2, (2 + 2 + 1 + 2) / 16 = .4375 for seed 1; the mean is .479.
    assert "+0.479" in text and "Two-level bootstrap" in text and "3 intervals of differences" in text
    assert "Over training seeds" in text and "95% t interval of the mean over seeds" in text
    fields = text[text.index("Settings that differ") : text.index("Health of the curriculum")]
    assert "seed 0, 1, 2 0, 1, 2" in fields and "conjecturer_reward tent binary_band" in fields


def test_arms_in_other_settings_are_not_compared(tmp_path):
    first = write_seeds(tmp_path, "a", counts=[1, 2])
    second = write_seeds(tmp_path, "b", counts=[1, 2], learning_rate=1.0)
    for folder in second:
        with edited(folder / "evaluation.json") as found:
            found["after"]["prover"]["setting"]["temperature"] = 0.5
    html = page(load_runs(first + second), {})
    assert "temperature 0.5" in html and "these arms are not compared" in html


def test_arms_on_other_problems_are_compared_on_the_common_ones_and_the_page_says_so(tmp_path):
    """Two problems in common: a has 1 and 2 right answers of 4, one more of each with seed 1; b has 1 and 2."""
    first = write_seeds(tmp_path, "a", counts=[1, 2, 3])
    second = write_seeds(tmp_path, "b", (0,), counts=[1, 2], learning_rate=1.0)
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", unescape(page(load_runs(first + second), {}))))
    assert "on different problems (2 to 3 of them): compared are the 2 that all have in common. 2 problems" in text
    # .375 and .625 of seeds 0 and 2, and of seed 1: their mean is .458, b has .375
    assert "0.458" in text and "-0.083" in text
    assert "pass@1 after training, against a (3 seeds) on 2 common problems: no difference shown." in text
