# Tests: training/metrics_buffer.py, training/round.py, training/callbacks/progress.py, random_state.py
"""From the metrics of rounds to a log entry and a line; cut texts; the cost of a run; random numbers of every turn."""

import json
from itertools import product
from types import SimpleNamespace

import pytest
from torch import tensor

from countdown_selfplay.contract.round import Rollout
from countdown_selfplay.random_state import seed_from
from countdown_selfplay.training.callbacks.progress import RoundLines, words_text
from countdown_selfplay.training.metrics_buffer import RunCounts, averaged_rounds
from countdown_selfplay.training.round import truncated_rows

END, PAD = 2, 0


@pytest.mark.parametrize("rows", [
    [
        ([5, 6, 7, 8], [1, 1, 1, 1], "a b c d", True),
        ([5, 6, 7, END], [1, 1, 1, 1], "a b c", False),
        ([5, 6, 7, 9], [1, 1, 1, 1], "a b c </s>", False),
        ([5, 9, PAD, PAD], [1, 1, 0, 0], "a </s>", False),
        ([5, 6, 7, PAD], [1, 1, 1, 0], "a b c", False),
    ],
    # padding is the end token: the row's own last token decides, not the last column
    [([5, END, END, END], [1, 1, 0, 0], "a", False), ([5, 6, 7, END], [1, 1, 1, 1], "a b c", False)],
])  # fmt: skip
def test_only_a_full_row_without_end_token_and_stop_string_is_truncated(rows):
    """Four tokens at most. By hand: a full row that ends on a word is cut; one that ends on the end token is not; one
    whose text holds the stop string is not, in the last column (TRL counts that one as cut) or before; a short row is
    not, whatever it ends on (a backend may leave the stop string out of the text)."""
    ids, mask, texts, expected = zip(*rows, strict=True)
    rollout = Rollout("prover", [], texts, tensors={"completion_ids": tensor(ids), "completion_mask": tensor(mask)})
    assert truncated_rows(rollout, {END}, ("</s>",), 4) == list(expected)


def test_a_metric_that_a_round_does_not_have_is_left_out_of_the_mean():
    rounds = [{"prover/truncated_rate": 0.5}, {"prover/truncated_rate": 0.0, "round/solve_rate_mean": 0.3}]
    assert averaged_rounds(rounds) == {"prover/truncated_rate": 0.25, "round/solve_rate_mean": 0.3}


def test_the_solve_rate_is_said_once_where_every_problem_was_conjectured():
    shown = [("prover/correct_rate", "solved"), ("round/solve_rate_mean", "solve rate")]
    logs = {"prover/correct_rate": 0.25, "round/solve_rate_mean": 0.25}
    assert words_text(shown, logs | {"round/anchor_slots": 0}) == "solved 0.25"
    assert words_text(shown, logs | {"round/anchor_slots": 8}) == "solved 0.25, solve rate 0.25"
    assert words_text(shown[1:], logs | {"round/anchor_slots": 0}) == "solve rate 0.25"  # a pool has no one share


def test_a_line_says_when_the_run_will_end(monkeypatch, capsys):
    """Begun at round 10 of 20; five rounds took 50 s, so five more take 50 s."""
    clock = iter([100.0, 150.0])
    monkeypatch.setattr("countdown_selfplay.training.callbacks.progress.time.monotonic", lambda: next(clock))
    lines, state = RoundLines([]), SimpleNamespace(is_world_process_zero=True, max_steps=20, global_step=10)
    lines.shown = [("a", "solved")]
    lines.on_train_begin(None, state, None)
    state.global_step = 15
    lines.on_log(None, state, None, {"a": 0.5, "step_time": 10.0})
    assert capsys.readouterr().out == "round 15/20: solved 0.50, 10.00 s/round, ETA 50 s\n"


def counted():
    counts = RunCounts()
    counts.count("prover/0", 32, 200)
    counts.count("conjecturer", 16, 90)
    counts.count("prover/0", 32, 180)
    counts.rounds = 2
    return counts


def test_samples_and_tokens_add_up_by_player():
    counts = counted()
    assert counts.samples == {"prover/0": 64, "conjecturer": 16} and counts.generations == 80
    assert counts.tokens == {"prover/0": 380, "conjecturer": 90}
    spent = counts.spent()
    counts.count("prover/0", 1, 1)
    assert spent["samples"]["prover/0"] == 64  # a copy


def test_a_rollback_takes_back_the_rounds_and_not_the_cost():
    """Four rounds were played; the checkpoint is that of two. A player of the checkpoint alone keeps its count."""
    early, counts = counted().state_dict(), counted()
    early["samples"]["prover/1"] = 7
    counts.count("prover/0", 64, 400)
    counts.rounds = 4
    spent = counts.spent()
    counts.load_state_dict(early)
    assert (counts.rounds, counts.generations) == (2, 87)
    counts.keep_spent(spent)
    assert (counts.rounds, counts.attempt) == (2, 0)
    assert counts.samples == {"prover/0": 128, "conjecturer": 16, "prover/1": 7}
    assert counts.tokens == {"prover/0": 780, "conjecturer": 90}


def test_it_survives_json():
    counts, again = counted(), RunCounts()
    counts.attempt = 3
    saved = json.loads(json.dumps(counts.state_dict()))
    again.load_state_dict(saved)
    assert again == counts
    again.count("prover/0", 1, 1)
    assert saved == counts.state_dict()  # loading copies


def test_each_turn_of_each_attempt_has_a_seed_of_its_own():
    """(seed, "rollout", attempt, round, turn, player, rank), as training/rollouts.py makes them."""
    places = product(range(2), range(25), range(1, 6), ("prover/0", "prover/1", "conjecturer", "guide"), range(2))
    keys = [(RunCounts(rounds=n, attempt=attempt, turn=turn).key(), *of) for attempt, n, turn, *of in places]
    assert len({seed_from(7, "rollout", *key, *of) for key, *of in keys}) == 2 * 25 * 5 * 4 * 2
