# Tests: lab/report/panels.py, studies/symbolic_proposers.py
"""Symbolic proposers in a report, and the arms of their study."""

import importlib
import json

import pytest
from tests.made_up_runs import write_run

from countdown_selfplay import JointSelfPlayConfig
from countdown_selfplay.config.recipes import recipe_fields
from countdown_selfplay.lab.report import load_run, write_report
from countdown_selfplay.lab.report.panels import drawn, reliability
from countdown_selfplay.lab.report.tables import filtering


def symbolic_run(folder):
    """A made-up run whose rounds 0 and 10 are refreshes."""
    run = write_run(folder, rounds=12)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    rounds = [line for line in lines if "loss" in line or "round/starved" in line]
    for line, valid, hard in ((rounds[0], 0.6, 0.5), (rounds[10], 0.8, None)):
        line |= {"proposer/raw": 100, "proposer/valid_rate": valid, "proposer/rejected_trivial": 1 - valid}
        line |= {"proposer/selected": 10, "proposer/diversity": 0.1, "proposer/eligible_rate": 1 - (hard or 0)}
        line |= {} if hard is None else {"proposer/refused_too_hard": hard}
        line |= {"proposer/rate_at_1": 0.2} if hard else {"proposer/rate_at_1": 0.1, "proposer/rate_at_7": 0.8}
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


def test_the_report_shows_the_filter_cascade_and_the_last_reliability(tmp_path):
    run = load_run(symbolic_run(tmp_path / "one"))
    shown = {row[0]["hint"].partition(":")[0]: row[1] for row in filtering([run]).rows}
    # means over the two refreshes; what a refresh did not log, nobody was refused for
    assert shown == {
        "proposer/raw": "100", "proposer/valid_rate": "70.0%", "proposer/rejected_trivial": "30.0%",
        "proposer/eligible_rate": "75.0%", "proposer/refused_too_hard": "25.0%", "proposer/selected": "10",
    }  # fmt: skip
    figure = reliability([run])["Reliability of the predictor"]
    line = next(line for line in figure.axes[0].lines if len(line.get_xdata()) == 10)
    assert line.get_ydata()[1] == 0.1 and line.get_ydata()[7] == 0.8 and line.get_xdata()[7] == pytest.approx(0.75)
    charts = drawn([run])["Symbolic proposer"]
    assert {"Diversity of the selected", "Candidates: valid, and eligible of these"} <= set(charts)
    page = write_report([run.path], tmp_path / "report.html").read_text()
    assert "Filters of the symbolic proposer" in page and "proposer refused too hard" in page


def test_every_arm_of_the_study_keeps_the_same_share_and_the_papers_settings_its_kl_and_entropy():
    study = importlib.import_module("symbolic_proposers")
    for arm, (recipe, _, changes) in study.ARMS.items():
        own = recipe_fields(recipe, {}, JointSelfPlayConfig).get("proposer_kwargs", {}) | changes
        if own and arm != "ours":
            assert own["keep"] / own["candidates"] == 3 / 16, arm  # 48 of 256 every ten rounds, or 12 of 64 in each
    # what the first study was played with: 48 of 96 for UCB, ten refreshes for the trained proposer
    assert study.FIRST_STUDY["ucb"]["candidates"] == 96 and study.FIRST_STUDY["trained"]["refresh"] == 10
    study = importlib.import_module("symbolic_proposers")
    for arm, changes in study.PAPER_STUDY.items():
        recipe, _, own = study.ARMS[arm]
        kwargs = recipe_fields(recipe, {}, JointSelfPlayConfig)["proposer_kwargs"] | own | changes
        assert kwargs["keep"] / kwargs["candidates"] == 1 / 16, arm  # 16 of 256 every ten rounds, 4 of 64 in each
    own = study.STUDIES["paper"][0]
    assert (own["beta"], own["entropy_coef"]) == (0.001, 0.001)  # table 1
    scored = study.scored_problems(512, False, own["number_high"])
    assert len(scored) == 512 and max(max(p.numbers) for p in scored) == study.KNOWN
    assert len(study.scored_problems(512, True, own["number_high"])) == 320  # of the training side
