"""What tools/golden_trajectories.py calls a difference, on made-up results."""

import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"

PLAYED = {
    "weights": {"prover: w": "aa", "prover: v": "bb"},
    "metrics": {"loss": [[1, 0.5], [2, 0.25]], "round/new": [[1, 3], [2, 4]]},
}


@pytest.fixture
def golden(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import golden_trajectories

    yield golden_trajectories
    for name in ("golden_trajectories", "trees"):
        del sys.modules[name]


def changed(**parts):
    return {part: {**PLAYED[part], **parts.get(part, {})} for part in PLAYED}


def test_equal_results_have_no_difference(golden):
    assert golden.compare(PLAYED, changed(), []) == ([], [])


def test_the_last_bit_of_a_metric_is_a_difference_unless_it_is_ignored(golden):
    other = changed(metrics={"loss": [[1, 0.5], [2, 0.25000000000000006]], "round/new": [[1, 2], [2, 4]]})
    first, second = (
        "metric round/new: 3 at step 1 != 2 at step 1",
        "metric loss: 0.25 at step 2 != 0.25000000000000006",
    )
    assert golden.compare(PLAYED, other, []) == ([first, f"{second} at step 2"], [])
    assert golden.compare(PLAYED, other, ["round/*"]) == ([f"{second} at step 2"], [])


def test_a_log_that_is_missing_is_a_difference(golden):
    wrong, _ = golden.compare(PLAYED, changed(metrics={"loss": [[1, 0.5]]}), [])
    assert wrong == ["metric loss: 0.25 at step 2 != nothing"]


def test_a_metric_of_one_tree_alone_is_a_note_and_weights_of_one_tree_alone_are_a_difference(golden):
    other = changed(metrics={"own": [[1, 1]]}, weights={"prover: v": "bc", "conjecturer: w": "aa"})
    wrong, notes = golden.compare(PLAYED, other, ["*"])
    named = "conjecturer: w (only in head), prover: v (other values)"
    assert (wrong, notes) == ([f"weights: 2 tensors, among them {named}"], ["only head logs own"])


def test_a_run_that_fails_is_a_difference(golden):
    assert golden.compare(PLAYED, {"error": "no such field"}, ["*"]) == (["head: no such field"], [])


def test_the_anchors_are_different_problems_that_the_rows_numbers_reach(golden):
    rows = golden.problems(64)
    assert len({(*sorted(row["numbers"]), row["target"]) for row in rows}) == 64
    assert all(a * b + c == row["target"] <= 99 for row in rows for a, b, c in [row["numbers"]])
