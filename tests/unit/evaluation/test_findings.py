# Tests: evaluation/findings.py, countdown/domain.py
"""Findings on runs that went well and on runs that are broken in a known way; the line on top of a report."""

import re
from dataclasses import replace

import pytest
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from countdown_selfplay.cli.main import main
from countdown_selfplay.contract.metric import Metric, declaration_of
from countdown_selfplay.evaluation.findings import findings, subject, verdict
from countdown_selfplay.evaluation.load import load_run, shipped
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
