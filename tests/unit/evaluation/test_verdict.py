# Tests: evaluation/findings.py
"""The line on top of a report, from made-up run folders."""

from dataclasses import replace

import pytest

from countdown_selfplay.contract.metric import Metric, declaration_of
from countdown_selfplay.evaluation.findings import subject, verdict
from countdown_selfplay.evaluation.load import load_run, shipped
from countdown_selfplay.statistics.bootstrap import Interval
from tests.made_up_runs import write_run


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
