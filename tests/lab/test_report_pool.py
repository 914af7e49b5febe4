# Tests: lab/report/charts.py, evaluation/load.py, lab/report/tables.py
"""Figure 1 and table 2 of seed 000, from a made-up run folder."""

import json
from dataclasses import replace

import pytest
from tests.made_up_runs import write_run

from countdown_selfplay.lab.report import load_run
from countdown_selfplay.lab.report.charts import charts_of
from countdown_selfplay.lab.report.page import page
from countdown_selfplay.lab.report.tables import ends, windows


@pytest.fixture
def pool(tmp_path):
    """A run of 20 rounds whose tiers rise: round i has pass rates i / 100 (tier 0) and i / 200 (tier 1)."""
    folder = write_run(tmp_path, "pool", rounds=20)
    path = folder / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if "round/starved" in line:
            i = line["step"]
            line |= {"valid_conjecture_rate": 0.3 + i / 100, "mean_prover_pass_rate": i / 100}
            line |= {"prover_pass_rate_tier_0": i / 100, "tier_0_operand_count": 3, "tier_1_operand_count": 4}
            if i != 20:  # no problem of tier 1 in the last round
                line["prover_pass_rate_tier_1"] = i / 200
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_table_2_compares_the_first_five_rounds_with_the_last_five(pool):
    run = load_run(pool)
    # rounds 1-5: mean of 1..5 is 3; rounds 16-20: 18; tier 1 without its last round: 17.5 / 2
    assert ends(run, "mean_prover_pass_rate") == (pytest.approx(0.03), pytest.approx(0.18))
    assert ends(run, "prover_pass_rate_tier_1") == (pytest.approx(0.015), pytest.approx(0.0875))
    rows = {row[0]["text"]: row[1:] for row in windows([run]).rows}
    assert rows["valid conjecture rate"] == ["0.330", "0.480"]
    assert rows["prover pass rate tier 1"] == ["0.015", "0.087"]  # 0.0875 as a float lies below it


def test_seeds_of_an_arm_are_a_mean_with_an_interval(pool):
    """Early means .30, .33 and .36 of three seeds: .33 +- t(.975, 2) = 4.3027 times .03 / sqrt(3)."""
    run = load_run(pool)
    runs = []
    for seed in (1, 2, 3):
        rounds = [row | {"valid_conjecture_rate": 0.27 + 0.03 * seed} for row in run.rounds]
        runs.append(replace(run, name=f"pool/seed-{seed}", config={**run.config, "seed": seed}, rounds=rounds))
    found = windows(runs)
    early, late = {row[0]["text"]: row[1:] for row in found.rows}["valid conjecture rate"]
    half = 4.3027 * 0.03 / 3**0.5
    assert (early.value, early.high - early.value) == (pytest.approx(0.33), pytest.approx(half, rel=1e-4))
    assert late == early and found.groups == [] and "t interval" in found.note


def test_the_page_has_them_and_that_of_another_run_has_not(pool, tmp_path):
    found = [chart.title for chart in charts_of([load_run(pool)]) if chart.section == "Pool"]
    assert found == [
        *("Valid conjectures", "Operands of tier 0", "Operands of tier 1"),
        *("Pass rate of tier 0", "Pass rate of tier 1", "Mean pass rate"),
    ]
    runs = [load_run(pool)], [load_run(write_run(tmp_path, "other", rounds=8))]
    assert ["Early and late rounds of the pool" in page(one, {}) for one in runs] == [True, False]
    assert windows(runs[1]) is None and not any(chart.section == "Pool" for chart in charts_of(runs[1]))
