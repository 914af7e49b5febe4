# Tests: lab/critics/win_rates.py
"""Win rates between provers and critics: scripts that meet, and the folders that runs leave."""

import json

import pytest

from countdown_selfplay.countdown import CountdownDomain, Problem
from countdown_selfplay.errors import DataError
from countdown_selfplay.games.critic_discernment import CriticDiscernment, outcome_of
from countdown_selfplay.lab.critics.win_rates import (
    cell_figures,
    iterations_of,
    matrix_of,
    named_iterations,
    win_rates,
)
from countdown_selfplay.objectives import make_objective
from countdown_selfplay.testing import ScriptedRound

TINY = CountdownDomain.tiny()
PROBLEM = Problem((3, 5, 7), 22)
RIGHT, WRONG = "3 * 5 + 7", "3 + 5 + 7"


def meeting(prover, critics):
    """A credulous prover answers anew whatever it is told, a stubborn one rejects every critique. Good critics name a
    step, bad ones talk. One right and one wrong first answer; two revisions of which the second is wrong."""

    def write(player, row, i):
        if player != "prover":
            return "3 + 5" if "3 + 5" in row["prompt"] else "3 * 5" if critics == "good" else "words"
        if not row["prompt"].startswith("again"):
            return (RIGHT, WRONG)[i]
        return "right" if prover == "stubborn" else (RIGHT, WRONG)[i]

    sizes = {"prover": (1000, 2), "helpful": (1000, 1), "misleading": (1000, 1)}
    return ScriptedRound(write, sizes, TINY, objectives={role: make_objective("reinforce") for role in sizes})


def test_every_prover_meets_all_critics():
    """Credulous: of the wrong answer's two revisions one is right (corrected 1/2); of the right answer's one is right
    again (kept, so it stands 1/2) and one is wrong (misled 1/2). Stubborn: nothing corrected, everything resisted. The
    bad critics' misleading critique cannot be read, so no right answer is revised."""
    game = CriticDiscernment(revisions=2)
    found = win_rates(["credulous", "stubborn"], ["good", "bad"], meeting, game, [PROBLEM])
    assert matrix_of(found, "corrected") == [[0.5, 0.5], [0.0, 0.0]]  # rows are provers
    assert matrix_of(found, "resisted") == [[0.0, None], [1.0, None]]
    assert matrix_of(found, "stands") == [[0.5, None], [1.0, None]]
    assert matrix_of(found, "misled") == [[0.5, None], [0.0, None]]
    first = found["cells"][0]
    assert (first["prover"], first["critics"]) == ("credulous", "good")
    assert first["outcomes"] == {"corrected": 1, "kept": 1, "misled": 1, "not_corrected": 1}


def test_a_cells_intervals_are_over_problems_and_a_new_answer_beside_a_rejection_is_a_rejection():
    """Two problems: 2 of 2 and 0 of 2 resisted. The draws give 0, 1/2 or 1 with chances 1/4, 1/2, 1/4."""
    outcomes = [("a", "resisted")] * 2 + [("b", "misled")] * 2 + [("b", "not_corrected")]
    found = cell_figures(outcomes)
    assert found["resisted"] == {"value": 0.5, "low": 0.0, "high": 1.0}
    assert found["corrected"]["value"] == 0.0 and found["corrected"]["high"] > 0.5  # one problem says little
    # The rejection leaves the first answer standing, whatever stands beside it.
    assert [outcome_of(True, right, 1) for right in (True, False)] == ["resisted", "resisted"]
    assert [outcome_of(False, right, 1) for right in (True, False)] == ["not_corrected", "not_corrected"]


@pytest.mark.parametrize(
    ("outcomes", "reward"), [(["misled"] * 3 + ["resisted"], 0.75), (["misled"] * 2 + ["kept", "unclear"], 0.5)]
)
def test_exactly_three_of_four_misled_is_three_quarters(outcomes, reward):
    assert cell_figures([("a", outcome) for outcome in outcomes])["misled"]["value"] == reward


def model_in(folder):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return str(folder)


def test_an_iterated_run_has_its_start_and_what_each_iteration_left(tmp_path):
    """The helpful critic was not trained in iteration 1 and keeps its model."""
    run = tmp_path / "run"
    trained = {role: model_in(run / "iteration-1" / role) for role in ("prover", "misleading")}
    later = {role: model_in(run / "iteration-2" / role) for role in ("prover", "helpful", "misleading")}
    start = dict.fromkeys(("prover", "helpful", "misleading"), "tiny")
    (run / "iterated.json").write_text(json.dumps({"models": start}))
    ended = [{"iteration": t, "phase": "train", "role": role, "rows": 1} for t in (1, 2) for role in start]
    (run / "iterations.jsonl").write_text("".join(json.dumps(line) + "\n" for line in ended))
    model_in(run / "iteration-3" / "prover")  # the critics of this one are still being trained
    found = iterations_of(run)
    assert [(one.name, dict(one.models)) for one in found] == [
        ("start", start), ("1", {**start, **trained}), ("2", later),
    ]  # fmt: skip
    (run / "iterated.json").write_text('{"models": ')
    with pytest.raises(DataError, match=r"iterated\.json' does not hold a JSON object .*; the run folder is damaged"):
        iterations_of(run)


def test_an_online_run_has_its_checkpoints_in_order_and_its_end(tmp_path):
    for name in ("checkpoint-100", "checkpoint-50", ""):
        for role in ("prover", "misleading"):
            model_in(tmp_path / name / role)
    assert [one.name for one in iterations_of(tmp_path)] == ["checkpoint-50", "checkpoint-100", "end"]
    words = [f"early={tmp_path / 'checkpoint-50'}", f"late={tmp_path}"]
    assert [one.name for one in named_iterations(words)] == ["early", "late"]
    with pytest.raises(DataError, match="Two iterations are called 'early'"):
        named_iterations([words[0], words[0]])


def test_a_folder_without_players_is_one_sentence(tmp_path):
    with pytest.raises(DataError, match=r"holds no players: neither iterated\.json"):
        named_iterations([str(tmp_path)])
    model_in(tmp_path / "prover")
    with pytest.raises(DataError, match="'alone' has prover; win rates need a prover and a critic"):
        named_iterations([f"alone={tmp_path}"])
