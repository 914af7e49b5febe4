"""The SVG writer and the way from a metric to a curve, against positions and means worked out by hand."""

import re
from xml.etree import ElementTree

import pytest

from countdown_selfplay.evaluation.report.charts import (
    SECTIONS,
    Chart,
    compare,
    curve,
    draw,
    solve_rate_map,
    target_band,
)
from countdown_selfplay.evaluation.report.load import Run
from countdown_selfplay.evaluation.report.svg import Line, heat_map, line_chart, number, standalone, ticks


def make_run(values, metric="round/solve_rate_mean", **changes):
    """A run with one round per value; None is a round without the metric."""
    rounds = [
        {"step": float(i), "prover/reward": 0.5, **({} if value is None else {metric: value})}
        for i, value in enumerate(values, start=1)
    ]
    fields = dict(path=None, name="r", started="", config={}, environment={}, rounds=rounds, histograms={}, others=[])
    return Run(**{**fields, **changes})


def paths(svg, kind):
    return re.findall(rf'<path class="{kind}" stroke="var\(--c(\d)\)" d="([^"]*)"', svg)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0.03, 0.97, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (-1, 1, [-1, -0.5, 0, 0.5, 1]),
        (0, 1e-4, [0, 2e-5, 4e-5, 6e-5, 8e-5, 1e-4]),
        (1, 300, [0, 100, 200, 300]),
        (5, 5, [2, 3, 4, 5, 6, 7, 8]),  # a constant is put in the middle of its own size: 2.5 to 7.5
    ],
)
def test_ticks_are_round_numbers_that_enclose_the_range(low, high, expected):
    assert ticks(low, high) == pytest.approx(expected, abs=1e-12)


def test_ticks_of_rounds_are_whole():
    assert ticks(1, 3, whole=True) == [1, 2, 3]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.25, "0.25"), (1200, "1200"), (3e-5, "3e-05"), (123456, "1.23e+05"), (-0.5, "-0.5")],
)
def test_labels_are_short(value, text):
    assert number(value) == text


def test_points_land_where_they_belong():
    svg = line_chart("t", [Line("a", [[(0, 0.0), (10, 1.0)]])], y_range=(0, 1))
    # The plot runs from x = 46 to 400 - 12 and, without a legend, from y = 250 - 36 up to 26.
    assert paths(svg, "mean") == [("0", "M46 214L388 26")]


def test_a_band_is_clipped_to_what_is_shown():
    svg = line_chart("t", [Line("a", [[(0, 0.0), (10, 1.0)]])], band=(0.5, 1.7))
    # With a legend row the plot begins at y = 42: it is 172 high; half of it is 86.
    assert '<rect class="band" x="46" y="42" width="342" height="86"/>' in svg
    assert '<rect class="band" x="46"' not in line_chart("t", [Line("a", [[(0, 0.0), (10, 1.0)]])], band=(2, 3))


def test_starved_rounds_are_marked_where_they_happened():
    svg = line_chart("t", [Line("a", [[(0, 0.0), (10, 1.0)]])], marks=[0, 5, 99])
    assert '<path class="mark" d="M46 214v-7M217 214v-7"/>' in svg


def test_a_lonely_point_and_a_constant_are_drawn():
    svg = line_chart("t", [Line("a", [[(3, 0.5)]])])
    assert paths(svg, "dot")[0][1].endswith("h0")
    assert "nan" not in svg.lower() and "inf" not in svg


@pytest.mark.parametrize("hostile", ["<script>", 'a"b', "a & b"])
def test_labels_and_titles_are_escaped(hostile):
    svg = line_chart(hostile, [Line(hostile, [[(0, 0), (1, 1)]]), Line("b", [[(0, 1), (1, 0)]])])
    texts = [node.text for node in ElementTree.fromstring(svg).iter() if node.text]
    assert texts.count(hostile) == 3  # <title>, the visible title, the legend


def test_a_standalone_file_is_valid_xml_with_its_style():
    tree = ElementTree.fromstring(standalone(line_chart("t", [Line("a", [[(0, 0), (1, 1)]])])).encode())
    style = tree.find("{http://www.w3.org/2000/svg}style")
    assert "--c0" in style.text and "prefers-color-scheme: dark" in style.text
    assert (tree.get("width"), tree.get("viewBox")) == ("800", "0 0 400 250")


def test_a_heat_map_shades_by_share_and_leaves_empty_columns_grey():
    svg = heat_map("t", [(1, [0.25, 0.5, 0.0]), (2, None), (3, [0.0, 0.125, 0.0])], 4)
    cells = re.findall(r'fill-opacity="([\d.]+)" x="([\d.]+)" y="([\d.]+)"', svg)
    # Three columns of 114, bins of (214 - 46) / 3 = 56 from below; the deepest shade is the greatest share, 1/2.
    assert cells == [("0.500", "46", "158"), ("1.000", "46", "102"), ("0.250", "274", "102")]
    assert '<rect class="none" x="160" y="46" width="114" height="168"/>' in svg
    assert "50% of the problems" in svg and "no problem played" in svg


def test_a_gap_in_the_metric_is_a_gap_in_the_curve():
    line = curve(make_run([0.1, 0.2, None, 0.4]), "round/solve_rate_mean", "x", 0)
    assert line.mean == [[(1, 0.1), (2, 0.2)], [(4, 0.4)]]


def test_the_running_mean_takes_only_rounds_that_have_a_value():
    # 40 rounds: one neighbour on each side. Round 3 is starved: round 2 averages 1 and 2, round 4 averages 4 and 5.
    values = [0.0, 0.6, None, 0.2, 0.4] + [0.4] * 35
    line = curve(make_run(values), "round/solve_rate_mean", "x", 0)
    means = dict(point for segment in line.mean for point in segment)
    assert means[1] == pytest.approx((0.0 + 0.6) / 2)
    assert means[2] == pytest.approx((0.0 + 0.6) / 2)
    assert 3 not in means
    assert means[4] == pytest.approx((0.2 + 0.4) / 2)
    assert means[5] == pytest.approx((0.2 + 0.4 + 0.4) / 3)
    assert line.raw[0] == [(1, 0.0), (2, 0.6)]


def test_a_long_run_draws_few_points_and_keeps_its_ends():
    line = curve(make_run([0.5] * 5000), "round/solve_rate_mean", "x", 0)
    (segment,) = line.mean
    assert len(segment) <= 401 and (segment[0][0], segment[-1][0]) == (1, 5000)
    assert line.raw == []


def test_charts_without_any_of_their_metrics_are_not_drawn():
    run = make_run([0.5, 0.6])
    drawn = {chart.title for charts in SECTIONS.values() for chart in charts if draw(chart, run)}
    assert drawn == {"Solve rate of the problems", "Prover's reward"}
    assert solve_rate_map(run) is None


def test_several_runs_get_one_chart_per_metric_with_a_curve_each():
    chart = Chart("T", (("prover/reward", "mean"), ("prover/absent", "absent"), ("round/solve_rate_mean", "rate")))
    svgs = compare(chart, [make_run([0.1, 0.2], name="first"), make_run([0.3, 0.4], name="second")])
    assert [re.search(r"<title>(.*?)</title>", svg)[1] for svg in svgs] == ["T: mean", "T: rate"]
    curves = [(color, d) for color, d in paths(svgs[1], "mean") if not d.endswith("h14")]  # h14: the legend
    # .1 to .4 in steps of .1 on a plot from y = 214 up to 42: a step is 57.3 (ticks .1, .2, .3 and .4)
    assert curves == [("0", "M46 214L388 156.7"), ("1", "M46 99.3L388 42")]
    assert "first" in svgs[1] and "second" in svgs[1]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # max(0, 1 - 2.5 |p - .4|) >= 1/2 where |p - .4| <= .2
        ({"conjecturer_reward": "tent"}, (0.2, 0.6)),
        ({"conjecturer_reward": "tent", "conjecturer_reward_kwargs": {"peak": 0.5}}, (0.3, 0.7)),
        (
            {"conjecturer_reward": "binary_band", "conjecturer_reward_kwargs": '{"low": 0.05, "high": 0.75}'},
            (0.05, 0.75),
        ),
        # 4 p (1 - p) >= 1/2 where |p - 1/2| <= 1 / sqrt(8) = .3536; on a grid of thousandths
        ({"conjecturer_reward": "learnability"}, (0.147, 0.853)),
        ({"conjecturer_reward": "mine"}, None),
        ({"conjecturer_reward": "tent", "conjecturer_reward_kwargs": {"width": 1}}, None),
        ({"conjecturer_reward": "tent", "conjecturer_reward_kwargs": "{"}, None),
        ({}, None),
    ],
)
def test_the_target_band_is_where_the_reward_is_at_least_half_its_peak(config, expected):
    found = target_band(make_run([0.5], config=config))
    assert found == (None if expected is None else pytest.approx(expected, abs=1e-9))


def test_histograms_of_several_rounds_are_put_together_in_one_column():
    # 120 rounds, two to a column; rounds 1 and 2 have 8 problems at 0 and 24 at 1: shares 1/4 and 3/4.
    histograms = {1: [8] + [0] * 10, 2: [0] * 10 + [24], 120: [0] * 5 + [4] + [0] * 5}
    svg = solve_rate_map(make_run([0.5] * 120, histograms=histograms))
    assert re.findall(r'fill-opacity="([\d.]+)" x="([\d.]+)"', svg) == [
        ("0.250", "46"),
        ("0.750", "46"),
        ("1.000", "382.3"),  # the last of 60 columns over 342: 46 + 59 x 5.7
    ]
    assert svg.count('class="none"') == 58 + 1  # and the one in the legend
