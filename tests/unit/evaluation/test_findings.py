# Tests: evaluation/findings.py, countdown/domain.py, countdown/moves.py, games/health.py, evaluation/summary.py
"""Findings on runs that went well or are broken in a known way; the line on top of a report; axes of the problems."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from countdown_selfplay.cli.main import main
from countdown_selfplay.contract.game import Proposal
from countdown_selfplay.contract.metric import Metric, declaration_of
from countdown_selfplay.countdown.domain import CountdownDomain
from countdown_selfplay.countdown.problem import Problem
from countdown_selfplay.evaluation.findings import findings, subject, verdict
from countdown_selfplay.evaluation.load import Run, load_run, shipped
from countdown_selfplay.evaluation.summary import pass_by_axes
from countdown_selfplay.games.health import axes_health
from countdown_selfplay.statistics.bootstrap import Interval
from countdown_selfplay.tiny import TINY_MODEL_PATH
from tests.made_up_runs import write_run
from tests.unit.evaluation.ten_runs import BROKEN, WELL, write_folder

STARVED = "The conjecturer was starved: in 100% of [0-9]+ logged rounds"
FIRST = {
    "cannot answer": r"The share of readable answers was 0\.00\d .* `prover_prompt` .* or warm-start it",
    "collapsed conjecturer": r"The conjecturer was starved: .* as `not_novel`\. Raise the conjecturer's temperature",
    "starved": rf"{STARVED} .* refused as `out_of_range`\. .* warm-start it on playable problems",
    "learning rate": r"The share of readable \w+ was .* training lost it\. Lower the \w+'s learning rate",
    "wrong prompt": rf"{STARVED} .* Set `conjecturer_prompt` to the one that the model knows",
}


@pytest.mark.parametrize("name", WELL)
def test_a_run_that_went_well_says_so(name, tmp_path):
    assert findings(load_run(write_folder(name, tmp_path / "run"))) == []


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_run_names_its_cause_first(name, tmp_path):
    assert re.match(FIRST[name], findings(load_run(write_folder(name, tmp_path / "run")))[0])


@pytest.mark.nightly
@pytest.mark.parametrize("name", [*WELL, *BROKEN])
def test_the_runs_themselves_are_judged_alike(name, tmp_path, monkeypatch):
    """Played again, from the starts that `--prepare` makes."""
    monkeypatch.chdir(tmp_path)
    command = WELL.get(name) or f"joint --recipe tiny/default {BROKEN[name]}"
    if name in ("pool", "sgs", "cdg"):
        assert main([name, "--prepare"]) == 0
    if name == "cannot answer":
        config = AutoConfig.from_pretrained(TINY_MODEL_PATH)
        AutoModelForCausalLM.from_config(config).save_pretrained("random")
        AutoTokenizer.from_pretrained(TINY_MODEL_PATH).save_pretrained("random")
    short = "--eval_problems 0 --save_strategy no --report false --report_to none --disable_tqdm true"
    assert main([*command.split(), *short.split(), "--output_dir", "run"]) == 0
    found = findings(load_run(tmp_path / "run"))
    assert re.match(FIRST[name], found[0]) if name in BROKEN else found == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("runs"), "demo", rounds=8, max_steps=8)


def judged(run, **changes):
    """The verdict of a run that gained these intervals, named by k."""
    found = {f"pass@{k[1:]}": Interval(*ends) for k, ends in changes.items()}
    return verdict(replace(run, evaluation={**run.evaluation, "difference": found}))


def test_an_interval_with_0_in_it_is_never_a_gain_and_findings_have_words(folder):
    run = load_run(folder)
    up, down, none = (0.1, 0.08, 0.12), (-0.1, -0.12, -0.08), (0.05, -0.03, 0.13)
    assert judged(run, k1=up, k16=down).word == "mixed" and judged(run, k1=down, k16=none).word == "worse"
    assert judged(run, k1=none, k16=up).word == "better"
    unclear = judged(run, k1=none, k16=(0.02, 0.0, 0.04))  # an end at 0 does not exclude it
    assert unclear.word == "no change shown" and "pass@1 rose" not in unclear.text and "control" not in unclear.text
    assert "A change in pass@1 of less than about 0.080 would not show here." in unclear.text  # (.13 + .03) / 2
    names = ("prover/0/zero_signal_groups", "judge/entropy")
    assert [subject(declaration_of(name, shipped())) for name in names] == [
        "the share of groups without signal of prover/0",
        "the entropy of judge (nats per token)",
    ]
    assert subject(Metric("round/odd_one", "")) == "odd one"
    assert subject(Metric("judge/odd_one", "")) == "judge odd one"


def test_a_control_is_what_the_gain_is_compared_to_and_what_is_not_over_is_not_judged(folder):
    run = replace(load_run(folder), control={"difference": {"pass@1": Interval(0.01, -0.01, 0.03)}})
    assert "No control was run" not in str(verdict(run))
    said = "Against the control without a conjecturer: no difference shown in pass@1 (+0.010 [-0.010, +0.030])."
    assert said in str(verdict(run))
    run = replace(run, control={"difference": {"pass@1": Interval(-0.02, -0.03, -0.01)}})
    assert "pass@1 is lower with the conjecturer (-0.020 [-0.030, -0.010])" in str(verdict(run))
    run = replace(load_run(folder), evaluation={})
    assert str(verdict(run)).startswith("Not measured: the run has no evaluation before and after training")
    going = replace(run, others=[{"step": 4, "eval_pass@1": 0.25}], config={**run.config, "max_steps": 300})
    said = "Not finished: round 8 of 300 is the last one that was logged; pass@1 was 0.250 at round 4."
    assert str(verdict(going)) == said
    assert str(verdict(replace(run, rounds=[]))) == "Not finished: no round was logged yet."


LADDER = CountdownDomain.ladder()


def band(target, domain=LADDER):
    return domain.axes(Problem((1, 2, 3), target))["target"]


def test_a_target_lies_in_a_band_that_ends_with_the_range_and_beyond_it_in_none():
    assert [band(target) for target in (1, 5, 6, 12, 13, 25, 26, 50, 51, 99)] == [
        "1-5", "1-5", "6-12", "6-12", "13-25", "13-25", "26-50", "26-50", "51-99", "51-99",
    ]  # fmt: skip
    assert LADDER.axes(Problem((1, 2, 3, 4), 7)) == {"rung": 4, "target": "6-12"} and band(100) is band(0) is None
    wide = replace(
        LADDER, spec=replace(LADDER.spec, target_low=-3, target_high=2000), answers="whole", prover_prompt="compact"
    )
    assert [band(target, wide) for target in (-3, 5, 100, 101, 250, 1001)] == [
        "-3-5", "-3-5", "51-100", "101-250", "101-250", "1001-2000",
    ]  # fmt: skip


def test_a_round_counts_proposals_and_played_problems_by_every_axis():
    played = [Problem((1, 2, 3), 3), Problem((1, 2, 3), 30), Problem((1, 2, 3, 4), 4)]
    proposals = [Proposal(p, request={}) for p in (*played[:2], Problem((1, 2, 3), 40), Problem((1, 2), 100), None)]
    found = axes_health(LADDER, proposals, played, [1.0, 0.25, 0.5])
    assert {name: value for name, value in found.items() if "/target_" in name} == {
        "round/target_1-5_proposed": 1, "round/target_1-5_played": 2, "round/target_1-5_solve_rate": 0.75,
        "round/target_26-50_proposed": 2, "round/target_26-50_played": 1, "round/target_26-50_solve_rate": 0.25,
    }  # fmt: skip
    assert (found["round/rung_3_proposed"], found["round/rung_3_solve_rate"]) == (3, 0.625)
    assert found["round/rung_4_played"] == 1 and "round/rung_2_proposed" not in found


def test_an_evaluation_logs_values_of_axes_that_have_several():
    axes = [{"rung": 3, "target": one} for one in ("1-5", "1-5", "26-50", None)]
    # pass@1 = c / 4, pass@4 = 1 if c > 0: (1 + 3) / 8 and 2 / 2; 0
    assert pass_by_axes(axes, [1, 3, 0, 4], 4, [1, 4]) == {
        "pass@1/target_1-5": 0.5, "pass@4/target_1-5": 1.0, "pass@1/target_26-50": 0.0, "pass@4/target_26-50": 0.0,
    }  # fmt: skip


HELD = {"1-5": 20, "6-12": 20, "13-25": 20, "26-50": 20, "51-99": 20}


def run_of(played, own, anchor=(0, 0.0), held=0.18, rounds=20):
    """A run whose last fifth, rounds 17 to 20, plays so many problems of each band; before it every band alike."""
    rows = []
    for step in range(1, rounds + 1):
        counts = played if step > 0.8 * rounds else HELD
        row = {"step": step, "round/solve_rate_mean": own, "round/conjectured_slots": 64 - anchor[0]}
        row |= {"round/anchor_slots": anchor[0], "round/anchor_solve_rate_mean": anchor[1]}
        rows.append(row | {f"round/target_{value}_played": count for value, count in counts.items()})
    others = [{"step": 0, "eval_pass@1": 0.9}, {"step": 10, "eval_pass@1": held}]
    fields = {name: {} for name in ("config", "environment", "histograms")}
    held_out = {"target": HELD}
    return Run(Path("x"), "x", "", rounds=rows, others=others, metrics=shipped(), held_out=held_out, **fields)


def said(run, word):
    return [one for one in findings(run) if word in one]


def test_a_collapse_on_an_axis_is_named_while_it_happens_and_not_where_the_task_is_mixed_in():
    collapsed = run_of({"1-5": 60, "6-12": 39, "26-50": 1}, 0.96)
    # above 12: 1 of 100 played, 60 of 100 held out; above 25 it would be 1 of 40
    assert said(collapsed, "left") == [
        "The run has left targets above 12: 1% of its problems in the last fifth of the rounds, 60% of the held-out "
        "ones. Give a share of the slots to the task's own problems (`anchor_fraction`), or take another "
        "`conjecturer_reward`."
    ]
    assert said(collapsed, "too easy:")[0].startswith(
        "What is played is too easy: solve rate 0.96 on the run's own problems in the last fifth of the rounds, "
        "0.18 on held-out ones."
    )
    # A quarter of the slots are the task's: above 12 a quarter of 60%; solved at (48 x .96 + 16 x .18) / 64 = .765
    mixed = run_of({"1-5": 45 + 5, "6-12": 30 + 5, "13-25": 5, "26-50": 5, "51-99": 5}, 0.96, (16, 0.18))
    assert said(mixed, "left") == said(mixed, "too easy:") == []
    assert said(run_of({"51-99": 50, "26-50": 50}, 0.5), "left")[0].startswith("The run has left targets below 26: 0%")
    # above 5 7.5% of 80%, under a fifth of it; above 12 the same of 60%, a smaller part
    assert "targets above 5: 8%" in said(run_of({"1-5": 185, "13-25": 15}, 0.5), "left")[0]
    assert not said(run_of({"1-5": 167, "51-99": 33}, 0.5), "left")  # 16.5% of 80%
    assert not said(run_of({"1-5": 99, "6-12": 1}, 0.96, rounds=2), "left")  # two rounds judge nothing
    assert not said(run_of({"1-5": 9}, 0.96, held=0.5), "too easy:")  # half as often
    assert not said(run_of({"1-5": 9}, 0.8), "too easy:") and said(run_of({"1-5": 9}, 0.81), "too easy:")
    assert not said(replace(collapsed, held_out={"target": {"easy": 2}, "size": {"1-4": 3}}), "left")
