# Tests: evaluation/findings.py
"""The line on top of a report, the examples by stratum, and the players of a pool, from made-up run folders."""

import json
from dataclasses import replace

import pytest

from countdown_selfplay.contract.metric import Metric, declaration_of
from countdown_selfplay.evaluation.findings import subject, verdict
from countdown_selfplay.evaluation.load import shipped
from countdown_selfplay.evaluation.terminal import before_after_table, changes_of_players
from countdown_selfplay.lab.report import load_run, write_report
from countdown_selfplay.lab.report.charts import charts_of
from countdown_selfplay.lab.report.page import examples, strata
from countdown_selfplay.lab.report.tables import width_of
from countdown_selfplay.statistics.bootstrap import Interval
from tests.made_up_runs import write_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("runs"), "demo", rounds=8, max_steps=8)


def judged(run, **changes):
    """The verdict of a run that gained these intervals, named by k."""
    found = {f"pass@{k[1:]}": Interval(*ends) for k, ends in changes.items()}
    return verdict(replace(run, evaluation={**run.evaluation, "difference": found}))


def test_the_line_names_the_ends_of_k_with_their_intervals_and_that_no_control_was_run(folder):
    """made_up_runs: pass@1 .33 to .43, +.1 [.08, .12]; pass@16 0 [-.02, .02]; those between are left to the table."""
    assert str(verdict(load_run(folder))) == (
        "Better: pass@1 rose from 0.330 to 0.430 (+0.100 [+0.080, +0.120]); pass@16: no change shown, from 0.850 to "
        "0.950 (+0.000 [-0.020, +0.020]) on 512 held-out problems, against before training. No control was run: the "
        "same command with `--control` says how much of this the conjecturer made. Rates of conjecturer: parseable "
        "rose from 0.500 to 0.600, in range rose from 0.500 to 0.600, solvable rose from 0.500 to 0.600, unique rose "
        "from 0.500 to 0.600, solve rate rose from 0.500 to 0.600."
    )


def test_an_interval_with_0_in_it_is_never_a_gain(folder):
    run = load_run(folder)
    up, down, none = (0.1, 0.08, 0.12), (-0.1, -0.12, -0.08), (0.05, -0.03, 0.13)
    assert judged(run, k1=up, k16=down).word == "mixed" and judged(run, k1=down, k16=none).word == "worse"
    assert judged(run, k1=none, k16=up).word == "better"
    unclear = judged(run, k1=none, k16=(0.02, 0.0, 0.04))  # an end at 0 does not exclude it
    assert unclear.word == "no change shown" and "pass@1 rose" not in unclear.text and "control" not in unclear.text
    assert "A change in pass@1 of less than about 0.080 would not show here." in unclear.text  # (.13 + .03) / 2


def test_a_control_is_what_the_gain_is_compared_to(folder):
    run = replace(load_run(folder), control={"difference": {"pass@1": Interval(0.01, -0.01, 0.03)}})
    assert "No control was run" not in str(verdict(run))
    said = "Against the control without a conjecturer: no difference shown in pass@1 (+0.010 [-0.010, +0.030])."
    assert said in str(verdict(run))
    run = replace(run, control={"difference": {"pass@1": Interval(-0.02, -0.03, -0.01)}})
    assert "pass@1 is lower with the conjecturer (-0.020 [-0.030, -0.010])" in str(verdict(run))


def test_a_run_that_is_not_over_or_was_not_measured_is_not_judged(folder):
    run = replace(load_run(folder), evaluation={})
    assert str(verdict(run)).startswith("Not measured: the run has no evaluation before and after training")
    going = replace(run, others=[{"step": 4, "eval_pass@1": 0.25}], config={**run.config, "max_steps": 300})
    said = "Not finished: round 8 of 300 is the last one that was logged; pass@1 was 0.250 at round 4."
    assert str(verdict(going)) == said
    assert str(verdict(replace(run, rounds=[]))) == "Not finished: no round was logged yet."


def test_examples_are_the_best_a_typical_one_and_every_refusal_once():
    """Of rewards 0, 0, .5, 1 the lower median is 0; two of six are malformed, one has the typical reward."""
    rows = [("a", 0.0, "duplicate"), ("b", 0.5, "ok"), ("c", 1.0, "ok"), ("d", 0.0, "malformed")]
    rows += [("e", None, "malformed"), ("f", None, "unsolvable")]
    cards = strata([{"completion": text, "reward": reward, "reason": why} for text, reward, why in rows])
    assert [(card["stratum"], card["text"]) for card in cards] == [
        ("best reward", "c"),
        ("typical reward", "d"),
        ("malformed: 2 of 6 logged", "e"),
        ("duplicate: 1 of 6 logged", "a"),
        ("unsolvable: 1 of 6 logged", "f"),
    ]
    assert strata([]) == []
    (alone,) = strata([{"completion": "x", "reward": 0.0, "reason": "malformed"}])
    assert alone["stratum"] == "best reward; malformed: 1 of 1 logged"


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


def test_findings_have_words_and_the_windows_of_a_short_pool_do_not_overlap(folder):
    names = ("prover/0/zero_signal_groups", "judge/entropy")
    assert [subject(declaration_of(name, shipped())) for name in names] == [
        "the share of groups without signal of prover/0",
        "the entropy of judge (nats per token)",
    ]
    assert subject(Metric("round/odd_one", "")) == "odd one"
    assert subject(Metric("judge/odd_one", "")) == "judge odd one"
    run = load_run(folder)  # 8 rounds: 4 and 4; six: 3 and 3; a single one: none
    assert [width_of(replace(run, rounds=run.rounds[:n])) for n in (8, 6, 1, 0)] == [4, 3, 0, 0]


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_run_of_one_or_two_rounds_has_a_page(tmp_path, rounds):
    page = write_report([write_run(tmp_path, "short", rounds=rounds)], tmp_path / "r.html").read_text()
    assert "Solve rate of the problems" in page and "nan" not in page.lower().replace("financ", "")
