# Tests: training/metrics_buffer.py, random_state.py
"""What a run cost, by player and through a rollback; random numbers of its own for every turn."""

import json

from countdown_selfplay.random_state import seed_from
from countdown_selfplay.training.metrics_buffer import RunCounts


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


def keys():
    """(seed, "rollout", attempt, round, turn, player, rank) of 1,000 turns, as training/rollouts.py makes them."""
    for round_ in range(25):
        for turn in range(1, 6):
            for role in ("prover/0", "prover/1", "conjecturer", "guide"):
                for rank in range(2):
                    counts = RunCounts(rounds=round_)
                    counts.turn = turn
                    yield (7, "rollout", *counts.key(), role, rank)


def test_a_thousand_turns_have_a_thousand_seeds():
    assert len({seed_from(*key) for key in keys()}) == 25 * 5 * 4 * 2 == 1000


def test_an_attempt_has_other_numbers_than_the_one_that_was_given_up():
    first, second = RunCounts(rounds=3), RunCounts(rounds=3, attempt=1)
    assert seed_from(7, "rollout", *first.key(), "prover", 0) != seed_from(7, "rollout", *second.key(), "prover", 0)
