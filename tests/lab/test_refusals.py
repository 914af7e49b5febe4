# Tests: lab/rewards.py, lab/experimental/schedules.py
"""What rewards, proposers, files and figures of lab refuse, as a table of tests/refusals."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.made_up_runs import write_run
from tests.refusals.rows import check, params, row
from tests.rung_domain import Numbered, scripted

from countdown_selfplay import report, summary
from countdown_selfplay.config import JointSelfPlayConfig
from countdown_selfplay.contract.domain import BaseDomain
from countdown_selfplay.countdown import CountdownDomain, Problem
from countdown_selfplay.errors import DataError, GameError, RewardError, UnknownNameError
from countdown_selfplay.evaluation import fit_scaling_curve, two_level_bootstrap, write_report
from countdown_selfplay.lab.critics.error_detection import read_solutions
from countdown_selfplay.lab.headroom.settings import HeadroomArguments
from countdown_selfplay.proposers import make_proposer
from countdown_selfplay.rewards import RewardContext, Sum, make_conjecturer_reward
from countdown_selfplay.rewards.solve_rate import Tent
from countdown_selfplay.statistics.bootstrap import t_interval

NAN = float("nan")
PROBLEMS = (Problem((3, 5, 7), 22), Problem((7, 5, 4), 22))
STEPS = {"derivations": "x"}
GAINS = {"0": {"3": 0.2, "4": 0.1, "5": 0.0}}
SOLUTION = {"numbers": [3, 5, 7], "target": 22, "response": "3 * 5 - 7", "steps": ["a", "b", "c"], "right": False}


def lazy(solve_rate_P, ctx):
    return 1.0


def proposed(name, arguments, round=None):
    """By a proposer in its first round."""
    return make_proposer(name, arguments).propose(round or scripted({}), [])


def checked(name, arguments, domain, *kinds):
    make_proposer(name, arguments).check({kind: [kind] for kind in ("prover", *kinds)}, domain)


def on_the_ladder(proposer, arguments):
    own = {"proposer": f"countdown_selfplay.lab.experimental.{proposer}", "proposer_kwargs": arguments}
    return JointSelfPlayConfig.from_recipe("tiny/ladder", output_dir="run", conjecturer_players=0, **own)


def labelled(**changes):
    """A solution of a problem, read from a file."""
    Path("steps.jsonl").write_text(json.dumps({**SOLUTION, **changes}) + "\n")
    return read_solutions(Path("steps.jsonl"), CountdownDomain.tiny())


def damaged(file, old, new):
    """The page of a run of whose files one says something else; nothing is written."""
    folder = write_run(Path(), "demo")
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1))
    try:
        write_report([folder], Path("r.html"))
    finally:
        assert not Path("r.html").exists() and not (folder / "plots").exists()


def put_at(place):
    """A page in the place of a folder, or of something below a file."""
    folder = write_run(Path(), "demo", rounds=1, evaluated=False)
    (folder / "file").write_text("")
    write_report([folder], folder / place)


ROWS = [
    # conjecturer rewards
    *(row(said, make_conjecturer_reward, name, arguments) for name, arguments, said in [
        ("sum", {}, "='sum' =terms"), ("sum", {"terms": []}, "=one~part"), ("sum", {"terms": "tent"}, "terms='tent'"),
        ("sum", {"terms": [{"name": "tent", "wieght": 1}]}, '="weight"'),
        ("sum", {"terms": [{"name": "tent", "weight": "a"}]}, "=finite"),
        ("sum", {"terms": [{"name": "tent", "weight": 10**400}]}, "=finite"),
        ("sum", {"terms": [{"name": "tent", "kwargs": {"top": 1}}]}, "='tent' =top; =peak, =slope"),
        ("product", {"factors": [{"name": "tent", "weight": 2}]}, "='product'"),
        ("product", {"factors": [None]}, "='product' =None"), ("binary_band", {"low": "a"}, "low='a'"),
        ("clip", {"low": 0.5}, "='clip' =of"), ("clip", {"of": "tent", "low": 2, "high": 1}, "=low"),
        ("clip", {"of": {"name": "tent", "kwargs": [1]}}, "=[1] ='tent'"),
        ("solvability_aware", {"unsolvable": 0.5}, "unsolvable=0.5 =-0.5"),
        ("frontier_distance", {"low": 0.7, "high": 0.1}, "=low=0.7 =high=0.1"),
        ("frontier_distance", {"floor": NAN}, "floor=nan"), ("adaptive_band", {"decay": 1.5}, "decay=1.5"),
        ("adaptive_band", {"low": 0.6, "high": 0.5}, "=low=0.6")]),
    row("='lazy' =() =4", (Tent() + lazy).__call__, [0.0, 0.25, 0.5, 1.0], None, error=RewardError),
    row("='tent'", make_conjecturer_reward, "sum", {"terms": ["tentt"]}, error=UnknownNameError),
    row("=(solve_rate_P)", Sum, (lambda: 1.0,)),
    row("=2 =3", make_conjecturer_reward("r_zero").__call__, np.zeros(3), RewardContext(problems=PROBLEMS),
        error=RewardError),
    row("=(2,~4) =3", make_conjecturer_reward("disagreement").__call__, np.zeros(3),
        RewardContext(prover_rates_MP=np.zeros((2, 4))), error=RewardError),
    # proposers over rungs
    *(row(said, make_proposer, name, arguments) for name, arguments, said in [
        ("uniform_rungs", {"rungs": []}, "rungs=[]"), ("uniform_rungs", {"rungs": 8}, "rungs=8"),
        ("uniform_rungs", {"rungs": [True]}, "rungs=[True]"), ("uniform_texts", {"rungs": [3]}, "=rungs; =share"),
        ("bandit_rungs", {"eps": 2}, "eps=2"), ("bandit_rungs", {"power": -1}, "power=-1"),
        ("ucb_rungs", {"pulls": 0}, "pulls=0"), ("ucb_rungs", {"discount": 0.9, "window": 5}, "window discount"),
        ("ucb_rungs", {"exploration": -1}, "exploration=-1"), ("thompson_rungs", {"discount": 0}, "discount=0"),
        ("oracle_rungs", {}, "gains"), ("oracle_rungs", {"kind": "half", "gains": GAINS}, "gains =half"),
        ("oracle_rungs", {"kind": "best"}, "kind='best'"), ("oracle_rungs", {"kind": "half", "every": 0}, "every=0"),
        ("oracle_rungs", {"gains": {"first": {"3": 1}}}, "gains =table"),
        ("oracle_rungs", {"gains": {"0": {"3": "much"}}}, "gains =finite"), ("oracle_rungs", {"gains": {}}, "gains"),
        ("oracle_rungs", {"gains": "no/such/file.json"}, "=no/such/file.json")]),
    row("=3, =0", proposed, "oracle_rungs", {"gains": {3: {3: 1}}}, error=DataError),
    row("=3,~4,~5 =0", proposed, "oracle_rungs", {"gains": {0: {9: 1}}}, error=DataError),
    row("=2", proposed, "bandit_rungs", {}, scripted({}, group=1), error=GameError),
    row("=9, =3,~4,~5", checked, "uniform_rungs", {"rungs": [3, 9]}, Numbered()),
    row("roles.conjecturer.players", checked, "uniform_rungs", {"rungs": [3]}, Numbered(), "conjecturer"),
    *(row("=BaseDomain", checked, name, {}, BaseDomain()) for name in ("uniform_rungs", "uniform_texts")),
    row("conjecturer_players", checked, "oracle_targets", STEPS, CountdownDomain.ladder(), "conjecturer"),
    row("answers=moves", checked, "oracle_targets", STEPS, CountdownDomain()),
    row("rounds=61", on_the_ladder, "schedules:ScheduledRungs", {"rounds": 61}),
    row("=size; =rung,~target", on_the_ladder, "cells:BanditCells", {"axis": "size"}),
    # figures
    *(row(said, fit_scaling_curve, compute, rate, error=DataError) for compute, rate, said in [
        ([1, 2], [0.1], "=2~and~1"), ([2, 1], [0.1, 0.2], "=fall"), ([-1, 1], [0.1, 0.2], "=0~or~above"),
        ([1, 2], [0.1, 1.2], "=[0,~1]"), ([1, NAN], [0.1, 0.2], "compute"), ([], [], "=one~number")]),
    *(row(said, two_level_bootstrap, a, b, 4, error=DataError) for a, b, said in [
        ([[1, 2]], [[1, 2, 3]], "=2~and~3"), ([[1, 2], [1]], [[1, 2]], "=seed"), ([], [[1]], "=seed"),
        ([1, 2], [[1, 2]], "=seed")]),
    row("=two", t_interval, [1], error=DataError),
    *(row(said, HeadroomArguments, **given) for given, said in [
        ({"gate_rounds": 0}, "gate_rounds=0"), ({"gates": [5]}, "gates=[5]"), ({"gate_k": 200}, "gate_k=200"),
        ({"dry_run": True}, "dry_run"), ({"eval_dataset_name": "mine.jsonl"}, "eval_dataset_name")]),
    # files
    *(row(said, labelled, **given, error=DataError) for given, said in [
        ({"first_wrong": 4}, "=1: first_wrong=4"), ({"first_wrong": 0}, "first_wrong=0"),
        ({"right": True, "first_wrong": 1}, "first_wrong=1 right"), ({"right": None}, "response right"),
        ({"steps": [1]}, "steps"), ({"target": None}, "=1")]),
    *(row(f"={file} {said}", damaged, file, old, new, error=DataError) for file, old, new, said in [
        ("metrics.jsonl", '{"step": 3,', '{"step": 3', "=3:"),
        ("metrics.jsonl", '{"step": 2,', '{"stop": 2,', "=2: step"),
        ("metrics.jsonl", '{"step": 2,', '{"step": "2",', "=2: step='2'"),
        ("metrics.jsonl", '_histogram": [', '_histogram": [-1, ', "=1: =_histogram'"),
        ("samples.jsonl", "{", "[1]\n{", "=1: =list"), ("run.json", '"config"', '"setting"', "config"),
        ("run.json", "{", "", "=JSON"), ("evaluation.json", '"low"', '"lower"', "='lower':"),
        ("evaluation.json", "[0.1, 0.08, 0.12]", "[0.1]", "=[0.1]")]),
    row("=a~folder;", put_at, "", error=DataError),
    row("=written", put_at, "file/r", error=DataError),
    row("='absent'", write_report, ["absent"], "r.html", error=DataError),
    row("=one~run", write_report, [], "r.html", error=DataError),
    row("='absent'", report, ["absent", "other"], error=DataError),
    *(row("=aaa", tell, "a" * 300, error=DataError) for tell in (summary, report)),
]  # fmt: skip


@pytest.mark.parametrize("row", params("lab", ROWS))
def test_a_refusal_is_one_sentence_that_names_field_and_value(row, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(row)
