# Tests: lab/report/arms.py, lab/report/charts.py, lab/report/page.py, lab/report/tables.py
"""report.html of runs that differ only in the seed: one arm, a band, a comparison with intervals."""

import json
import re
from html import unescape

import numpy as np
import pytest
from tests import made_up_runs as made_up

from countdown_selfplay.lab.report import load_runs
from countdown_selfplay.lab.report.arms import arms_of, over_seeds
from countdown_selfplay.lab.report.charts import Chart, curve, figures
from countdown_selfplay.lab.report.page import page
from countdown_selfplay.lab.report.tables import gains
from countdown_selfplay.statistics.bootstrap import Interval, holm, two_sided_p


def write_seeds(tmp_path, name, numbers=(0, 1, 2), counts=None, **config):
    """Runs whose config says their seed; with `counts`, right answers of 4 on as many problems after training."""
    folders = []
    for i in numbers:
        folder = made_up.write_run(tmp_path, f"{name}-seed{i}", rounds=30, **config)
        text = json.loads((folder / "run.json").read_text())
        text["config"]["seed"] = i
        (folder / "run.json").write_text(json.dumps(text))
        if counts is not None:
            found = json.loads((folder / "evaluation.json").read_text())
            setting = {"temperature": 1.0, "top_p": 1, "top_k": 0, "max_new_tokens": 16, "prover_prompt": "compact"}
            setting |= {"rules": {}}
            own = [min(c + i % 2, 4) for c in counts]
            for when in ("before", "after"):
                keys = [f"1,2={k}" for k in range(len(own))]
                found[when]["prover"].update(n=4, correct=own, keys=keys, setting=setting)
            (folder / "evaluation.json").write_text(json.dumps(found))
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
    twice = [made_up.write_run(tmp_path, name, rounds=5) for name in ("one", "again")]  # equal seeds too
    assert [arm.name for arm in arms_of(load_runs(twice))] == ["one", "again"]
    # Three seeds that all gained .1: Student's t has no width, and the runs' own intervals reach from .08 to .12.
    for folder in (runs := write_seeds(tmp_path, "a")):
        assert json.loads((folder / "evaluation.json").read_text())["difference"]["pass@1"] == [0.1, 0.08, 0.12]
    table = gains(arms_of(load_runs(runs)))
    assert table.rows[0] == ["pass@1", Interval(pytest.approx(0.1), 0.08, 0.12)]


def test_an_arms_curve_is_the_mean_with_a_band(tmp_path):
    folders = write_seeds(tmp_path, "a")
    for folder, level in zip(folders, (0.2, 0.3, 0.7), strict=True):
        rows = [{"step": s, "prover/reward": level} for s in range(1, 6)]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
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
        found = json.loads((folder / "evaluation.json").read_text())
        found["after"]["prover"]["setting"]["temperature"] = 0.5
        (folder / "evaluation.json").write_text(json.dumps(found))
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
