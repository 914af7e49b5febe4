# Tests: lab/report/panels.py, evaluation/load.py, lab/report/charts.py, lab/report/tables.py, evaluation/findings.py
"""Panels of the report from made-up runs: rungs by round, pools, games with roles of their own, right answers."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.made_up_runs import edited, write_lines, write_run

from countdown_selfplay.contract.metric import SHARE, Metric, Panel, as_json, for_players, from_json
from countdown_selfplay.contract.trainer_metrics import TRAINER_METRICS
from countdown_selfplay.errors import DataError
from countdown_selfplay.evaluation.findings import findings
from countdown_selfplay.evaluation.load import load_runs
from countdown_selfplay.evaluation.summary import by_rung as by_rung_of
from countdown_selfplay.evaluation.summary import ladder, write_evaluation
from countdown_selfplay.evaluation.terminal import before_after_table, changes_of_players
from countdown_selfplay.lab.report import load_run, write_report
from countdown_selfplay.lab.report.charts import charts_of
from countdown_selfplay.lab.report.page import examples
from countdown_selfplay.lab.report.panels import drawn, rung_data, rung_maps, solve_counts
from countdown_selfplay.lab.report.tables import ends, health, results, windows


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
    write_lines(folder / "metrics.jsonl", lines)
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


@pytest.fixture
def pool(tmp_path):
    """A run of 20 rounds whose tiers rise: round i has pass rates i / 100 (tier 0) and i / 200 (tier 1)."""
    folder = write_run(tmp_path, "pool", rounds=20)
    with edited(folder / "metrics.jsonl") as lines:
        for i, line in enumerate(lines[:20], start=1):
            line |= {"valid_conjecture_rate": 0.3 + i / 100, "mean_prover_pass_rate": i / 100}
            line |= {"prover_pass_rate_tier_0": i / 100, "tier_0_operand_count": 3, "tier_1_operand_count": 4}
            if i != 20:  # no problem of tier 1 in the last round
                line["prover_pass_rate_tier_1"] = i / 200
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
    runs = []
    for seed in (1, 2, 3):
        rounds = [row | {"valid_conjecture_rate": 0.27 + 0.03 * seed} for row in run.rounds]
        runs.append(replace(run, name=f"pool/seed-{seed}", config={**run.config, "seed": seed}, rounds=rounds))
    found = windows(runs)
    early, late = {row[0]["text"]: row[1:] for row in found.rows}["valid conjecture rate"]
    half = 4.3027 * 0.03 / 3**0.5
    assert (early.value, early.high - early.value) == (pytest.approx(0.33), pytest.approx(half, rel=1e-4))
    assert late == early and found.groups == [] and "t interval" in found.note


def pool_side(*corrects):
    """Provers of a pool with right answers of 2 on as many problems, and all of them together."""
    pass_at = {"1": {"value": 0.5, "low": 0.4, "high": 0.6}, "2": {"value": 0.6, "low": 0.5, "high": 0.7}}
    found = {f"prover/{i}": {"n": 2, "correct": own, "pass_at": pass_at} for i, own in enumerate(corrects)}
    return {**found, "prover": {"n": 4, "problems": 3, "correct": [1, 1, 1], "pass_at": pass_at}}


def test_every_player_of_a_pool_has_rows_examples_and_curves(tmp_path):
    """prover/0 has one right answer of 2 more on one of three problems: pass@1 +1/6, pass@2 +1/3 where it had none."""
    folder = write_run(tmp_path, "pool", rounds=5)
    before, after = pool_side([0, 2, 2], [1, 1, 1]), pool_side([1, 2, 2], [1, 1, 1])
    same = {"pass@1": [0.0, -0.1, 0.1], "pass@2": [0.0, -0.1, 0.1]}
    (folder / "evaluation.json").write_text(json.dumps({"before": before, "after": after, "difference": same}))
    with edited(folder / "metrics.jsonl") as rows:
        for row in rows[:5]:
            row |= {f"prover/{i}/reward": 0.1 * i + 0.1 for i in (0, 1)}
            del row["prover/reward"]
    sample = {"step": 1, "completion": "3 + 5", "reason": "correct", "reward": 1.0}
    write_lines(folder / "samples.jsonl", (sample | {"role": f"prover/{i}"} for i in (1, 0)))
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
    labels = [f"{who} pass@{k}" for who in ("all provers:", "prover/0", "prover/1") for k in (1, 2)]
    assert [line.split("  ")[0] for line in table.splitlines()[2:]] == labels


ROLES = ("answerer", "judge", "mender")
GAME = (
    Metric("relay/repaired_share", "Share of the doubted answers that were repaired.", panel=Panel("Repairs", SHARE)),
    Metric("{judge}/trust", "Mean of the bets.", healthy=(0.2, 0.9), cure="Pay for doubts.", subject="mean bet"),
    Metric("{mender}/trust", "Mean of the bets of others."),
    Metric("relay/answers_of_<k>_numbers", "Answers to problems of k numbers."),
)
STANDARD = {
    "Entropy (nats per token)": "{}/entropy", "KL to the start (nats per token)": "{}/kl", "Loss": "{}/loss",
    "Gradient norm before the clip": "grad_norm/{}", "Learning rate": "lr/{}",
    "Tokens per text": "{}/completion_length", "Texts cut at the token limit": "{}/truncated_rate",
    "Seconds per round": "time/rollout_{}", "Reward": "{}/reward",
}  # fmt: skip
"""Title -> metric of each role, which the frame logs or any game may log."""
DECLARED = for_players((*TRAINER_METRICS, *GAME), {role: [role] for role in ROLES})


@pytest.fixture
def relay(tmp_path):
    """A run of three rounds; judge/trust is 0.1 and below its range."""
    row = {name.format(role): 0.5 for name in STANDARD.values() for role in ROLES}
    row |= {"relay/repaired_share": 0.25, "judge/trust": 0.1, "mender/trust": 0.3, "round/generations": 64}
    row |= {f"relay/answers_of_{k}_numbers": float(k) for k in (3, 10)}
    described = {"name": "relay", "config": {}, "metrics": {one.name: as_json(one) for one in DECLARED}}
    (tmp_path / "run.json").write_text(json.dumps(described))
    write_lines(tmp_path / "metrics.jsonl", ({"step": step, **row} for step in (1, 2, 3)))
    return tmp_path


def curves(run):
    """Title -> (metric, label) of the curves."""
    return {chart.title: chart.metrics for chart in charts_of([run])}


def test_every_role_has_the_standard_curves_and_every_declared_metric_is_drawn(relay):
    found = curves(load_run(relay))
    for title, metric in STANDARD.items():
        wanted = {metric.format(role): role for role in ROLES}
        assert [name for name, _ in found[title]] == list(wanted), title
        assert all(role in label for (_, label), role in zip(found[title], ROLES, strict=True)), title
    assert found["Repairs"] == (("relay/repaired_share", "relay/repaired_share"),)
    assert found["Trust"] == (("judge/trust", "judge"), ("mender/trust", "mender"))  # no panel: named after the metric
    numbers = [name for title in found if title.startswith("Relay answers of") for name, _ in found[title]]
    assert numbers == ["relay/answers_of_3_numbers", "relay/answers_of_10_numbers"]
    page = write_report([relay], relay / "report.html").read_text()
    assert all(f'aria-label="{title}"' in page for title in (*STANDARD, "Repairs", "Trust"))
    assert {"mender/trust", "lr/mender"} <= {name for chart in found.values() for name, _ in chart}


def test_a_role_of_the_game_is_judged_by_its_range_and_players_are_named_in_their_curves(relay):
    run = load_run(relay)
    assert findings(run)[-1] == "The mean bet was 0.1 over the run (healthy: 0.2 to 0.9). Pay for doubts."
    assert "mean bet" in [row[0]["text"] for row in health([run]).rows]
    rows = [{"step": 1, **{f"judge/{i}/entropy": 0.4 for i in (0, 1, 10)}, "mender/entropy": 0.3}]
    write_lines(relay / "metrics.jsonl", rows)
    players = {"judge": [f"judge/{i}" for i in (0, 1, 10)], "mender": ["mender"]}
    described = {one.name: as_json(one) for one in for_players(TRAINER_METRICS, players)}
    (relay / "run.json").write_text(json.dumps({"config": {}, "metrics": described}))
    run = load_run(relay)
    labels = [label for _, label in curves(run)["Entropy (nats per token)"]]
    assert labels == ["judge/0", "judge/1", "judge/10", "mender"]
    assert list(drawn([run])["Optimisation"]) == ["Entropy (nats per token)"]


def test_a_panel_is_written_and_read_and_a_damaged_one_is_named(relay):
    metric = Metric("a", "b", panel=Panel("T", (0.0, 1.0), "S", "l"), subject="c")
    assert from_json("a", json.loads(json.dumps(as_json(metric)))) == metric
    for damaged in ({"title": 1}, {"name": "x"}, "x", {"title": "T", "view": [None]}):
        with edited(relay / "run.json") as described:
            described["metrics"]["judge/trust"]["panel"] = damaged
        with pytest.raises(DataError, match=r"'metrics' must hold the declaration of each metric"):
            load_run(relay)


def test_a_run_without_declarations_gets_the_panels_of_the_library(relay):
    whole = curves(load_run(relay))
    (relay / "run.json").write_text(json.dumps({"name": "relay", "config": {}}))
    found = curves(load_run(relay))
    assert found["Loss"] == whole["Loss"] and "Trust" not in found


def test_solve_counts_are_drawn_before_and_after_where_they_were_counted(tmp_path):
    """Seed 001, section 5.2: 50 problems of 16 answers; 12 of 16 is often, 11 is not."""
    correct = [0] * 19 + [12] * 10 + [16] * 9 + [1] * 6 + [11] * 6
    shares, words = solve_counts(correct, 16)
    assert words == "38% never, 38% often"  # 19 of 50 each
    assert (shares * 50).tolist() == pytest.approx([19, 6, *[0] * 9, 6, 10, 0, 0, 0, 9])
    title = "Held-out problems by right answers"
    folder = write_run(tmp_path / "run")
    assert title not in drawn(load_runs([folder]))["Prover"]
    with edited(folder / "evaluation.json") as written:
        written["before"]["prover"]["correct"] = [0, 8]
        written["after"]["prover"]["correct"] = [16, 16]
    figure = drawn(load_runs([folder]))["Prover"][title]
    (axes,) = figure.axes
    # two problems: before one at 0 and one at 8 of 16, after both at 16
    before, after = (line.get_ydata() for line in axes.lines if len(line.get_ydata()) == 17)
    assert (before[0], before[8], after[16]) == (0.5, 0.5, 1.0)
