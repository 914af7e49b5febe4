# Tests: evaluation/load.py, lab/report/panels.py, lab/report/tables.py, games/metrics.py
"""What the report shows of the Critic-Discernment Game, from run folders made by hand."""

import json

import pytest
from tests.made_up_runs import CONFIG

from countdown_selfplay.contract.metric import as_json, for_players
from countdown_selfplay.errors import DataError
from countdown_selfplay.games.critic_discernment import CriticDiscernment
from countdown_selfplay.lab.report import load_run, write_report
from countdown_selfplay.lab.report.panels import matrices
from countdown_selfplay.lab.report.playground import playground, round_data, rounds_of
from countdown_selfplay.lab.report.tables import by_iteration
from countdown_selfplay.warm_starts.iterated import select

KINDS = {kind: [kind] for kind in CriticDiscernment.roles}
DECLARED = {metric.name: as_json(metric) for metric in for_players(CriticDiscernment.metrics, KINDS)}
QUESTION = "3 5 7 = 22 :"


def row(role, turn, label, iteration, problem="3,5,7=22", text="3 * 5 + 7"):
    prompt = f"again {QUESTION} 3 + 5 + 7 : 3 + 5 :" if turn else QUESTION
    return {
        "role": role, "turn": turn, "prompt": json.dumps(prompt), "completion": text, "reward": 1.0, "label": label,
        "problem": problem, "iteration": iteration, "chunk": 0, "weights": "tiny",
    }  # fmt: skip


@pytest.fixture
def run(tmp_path):
    """Two iterations. In the first 1 of 4 answers is right; of the wrong ones' revisions 1 of 2 is corrected; of the
    right one's 2 are resisted, 1 misled, 1 kept. In the second nothing is wrong, so wrong answers have no rate."""
    folder = tmp_path / "iterated"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"name": "iterated", "config": CONFIG, "metrics": DECLARED}))
    (folder / "iterated.json").write_text("{}")
    outcomes = ["corrected", "not_corrected", "resisted", "resisted", "misled", "kept"]
    first = [row("prover", 0, label, 1) for label in ("right", "wrong", "wrong", "wrong")]
    first += [row("prover", 1, outcome, 1, text="right" if outcome == "resisted" else "22") for outcome in outcomes]
    first += [row("helpful", 2, "shown", 1, text="3 + 5"), row("helpful", 2, "unreadable", 1, text="words")]
    second = [row("prover", 0, "right", 2), row("prover", 1, "unclear", 2, text="right right")]
    (folder / "iteration-0" / "imitation").mkdir(parents=True)
    for number, rows in ((1, first), (2, second)):
        (folder / f"iteration-{number}").mkdir()
        select.write(folder / f"iteration-{number}" / "played-00000.parquet", rows)
    return folder


def test_success_by_role_and_iteration_on_the_page_and_the_playground_with_transcripts(run):
    loaded = load_run(run)
    rates = [{name: found.value for name, found in one.items() if name != "iteration"} for one in loaded.iterations]
    # success: corrected, resisted twice, kept
    assert rates[0] == {
        "prover/correct_rate": 1 / 4, "prover/success_rate": 4 / 6, "prover/corrected_rate": 1 / 2,
        "prover/resisted_rate": 2 / 4, "prover/kept_rate": 1 / 4, "prover/misled_rate": 1 / 4,
        "helpful/win_rate": 1 / 2, "misleading/win_rate": 1 / 4, "helpful/read_rate": 1 / 2,
    }  # fmt: skip
    assert "prover/corrected_rate" not in rates[1] and rates[1]["prover/resisted_rate"] == 0
    assert loaded.steps == [1, 2] and loaded.series("misleading/win_rate") == [(1, 0.25), (2, 0.0)]
    table = by_iteration([loaded])
    assert table.head == ["", "iteration 1", "iteration 2"]
    cells = {cells[0]["text"]: cells for cells in table.rows}
    said = "prover/kept_rate: Of revisions of correct answers, the share that is correct again."
    assert cells["prover kept rate"][0]["hint"] == said
    _, first, second = cells["prover corrected rate"]
    assert first.value == 0.5 and second is None
    # Of the first iteration a revision of each outcome, two answers of each label and a critique of each.
    (step, rows), (last, _) = rounds_of(loaded)
    (problem,) = round_data(step, rows, loaded)["problems"]
    counts = {group["title"]: sum(card.get("count", 1) for card in group["cards"]) for group in problem["groups"]}
    assert (step, last) == (1, 2) and counts == {"Answers": 3, "Helpful critiques": 2, "Revisions": 5}
    page = playground(loaded)
    assert '"word":"Iteration"' in page and "Of each iteration a few samples of every outcome are shown." in page
    page = write_report([run], run / "report.html").read_text()
    transcripts = page[page.index("<h4>Transcripts</h4>") :]
    for outcome in ("corrected", "not_corrected", "resisted", "misled", "kept", "unclear"):
        assert f">{outcome}</span>" in transcripts
    assert "again 3 5 7 = 22 : 3 + 5 + 7 : 3 + 5 :\nprover: right right" in transcripts
    assert "Helpful critiques" in page and "The critic game by iteration" in page
    assert (run / "plots" / "who-wins-prover.svg").is_file() or (run / "plots" / "who-wins.svg").is_file()


def test_the_matrices_of_win_rates(run):
    def cell(prover, critics, value):
        found = {"value": value, "low": 0.0, "high": 1.0}
        return {"prover": prover, "critics": critics, **dict.fromkeys(("corrected", "stands", "misled"), found),
                "resisted": None if critics == "1" else found, "outcomes": {}}  # fmt: skip

    cells = [cell("start", "start", 0.24), cell("start", "1", 0.1), cell("1", "start", 0.563), cell("1", "1", 0.5)]
    found = {"provers": ["start", "1"], "critics": ["start", "1"], "problems": 5, "cells": cells}
    (run / "win_rates.json").write_text(json.dumps(found))
    loaded = load_run(run)
    titles = ["Wrong answers corrected", "Misleading critiques rejected", "Right answers that stand"]
    assert list(matrices([loaded])) == titles
    page = write_report([run], run / "report.html").read_text()
    assert "56.3%" in page and "24.0%" in page and "prover of iteration" in page
    (run / "win_rates.json").write_text(json.dumps({"provers": ["start"]}))
    with pytest.raises(DataError, match="does not say the win rates of `eval --task win_rates`"):
        matrices([load_run(run)])
