# Tests: evaluation/findings.py, countdown/cures.py
"""Findings on runs that went well, one of each system, and on runs that are broken in a known way."""

import re

import pytest
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from countdown_selfplay.cli.main import main
from countdown_selfplay.evaluation.findings import findings
from countdown_selfplay.evaluation.load import load_run
from countdown_selfplay.tiny import TINY_MODEL_PATH
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
