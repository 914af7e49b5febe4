# Tests: lab/report/charts.py, evaluation/load.py, lab/report/tables.py
"""Figure 1 and table 2 of seed 000, from a made-up run folder."""

import json
from dataclasses import replace

import pytest
from tests.made_up_runs import write_run

from countdown_selfplay.evaluation.load import load_run
from countdown_selfplay.evaluation.terminal import before_after_table, changes_of_players
from countdown_selfplay.lab.report import write_report
from countdown_selfplay.lab.report.charts import charts_of
from countdown_selfplay.lab.report.page import examples
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


def test_table_2_compares_the_first_five_rounds_with_the_last_five_over_seeds(pool):
    run = load_run(pool)
    # rounds 1-5: mean of 1..5 is 3; rounds 16-20: 18; tier 1 without its last round: 17.5 / 2
    assert ends(run, "mean_prover_pass_rate") == (pytest.approx(0.03), pytest.approx(0.18))
    assert ends(run, "prover_pass_rate_tier_1") == (pytest.approx(0.015), pytest.approx(0.0875))
    rows = {row[0]["text"]: row[1:] for row in windows([run]).rows}
    assert rows["valid conjecture rate"] == ["0.330", "0.480"]
    assert rows["prover pass rate tier 1"] == ["0.015", "0.087"]  # 0.0875 as a float lies below it
    # Early means .30, .33 and .36 of three seeds: .33 +- t(.975, 2) = 4.3027 times .03 / sqrt(3).
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


def side(*corrects):
    """Provers of a pool with right answers of 2 on as many problems, and all of them together."""
    pass_at = {"1": {"value": 0.5, "low": 0.4, "high": 0.6}, "2": {"value": 0.6, "low": 0.5, "high": 0.7}}
    found = {f"prover/{i}": {"n": 2, "correct": own, "pass_at": pass_at} for i, own in enumerate(corrects)}
    return {**found, "prover": {"n": 4, "problems": 3, "correct": [1, 1, 1], "pass_at": pass_at}}


def test_every_player_of_a_pool_has_rows_examples_and_curves(tmp_path):
    """prover/0 has one right answer of 2 more on one of three problems: pass@1 +1/6, pass@2 +1/3 where it had none."""
    folder = write_run(tmp_path, "pool", rounds=5)
    before, after = side([0, 2, 2], [1, 1, 1]), side([1, 2, 2], [1, 1, 1])
    same = {"pass@1": [0.0, -0.1, 0.1], "pass@2": [0.0, -0.1, 0.1]}
    (folder / "evaluation.json").write_text(json.dumps({"before": before, "after": after, "difference": same}))
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for row in rows[:5]:
        row |= {f"prover/{i}/reward": 0.1 * i + 0.1 for i in (0, 1)}
        del row["prover/reward"]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    samples = [{"step": 1, "role": f"prover/{i}", "completion": f"text {i}", "reason": "correct"} for i in (1, 0)]
    (folder / "samples.jsonl").write_text("".join(json.dumps({**row, "reward": 1.0}) + "\n" for row in samples))
    run = load_run(folder)
    changes = changes_of_players({"before": before, "after": after})
    assert changes["prover/0"]["pass@1"].difference == pytest.approx(1 / 6)
    assert changes["prover/0"]["pass@2"].difference == pytest.approx(1 / 3)
    assert changes["prover/1"]["pass@2"].difference == 0
    assert list(examples(run)) == ["Answers of prover/0", "Answers of prover/1"]
    (chart,) = (chart for chart in charts_of([run]) if chart.title == "Prover's reward")
    rewards = (("prover/0/reward", "mean, prover/0"), ("prover/1/reward", "mean, prover/1"))
    assert chart.metrics == (*rewards, ("prover/reward_std", "std"))
    page = write_report([folder], tmp_path / "r.html").read_text()
    assert "all provers: pass@1" in page and "prover/0 pass@2" in page and "prover/1 pass@1" in page
    table = before_after_table({"before": before, "after": after, "difference": same})
    assert [line.split("  ")[0] for line in table.splitlines()[2:]] == [
        *("all provers: pass@1", "all provers: pass@2", "prover/0 pass@1", "prover/0 pass@2"),
        *("prover/1 pass@1", "prover/1 pass@2"),
    ]
