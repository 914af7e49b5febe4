# Tests: training/book.py, random_state.py
"""Time of a run, and what it cost: counted by player, kept through a rollback, plain JSON;
and random numbers of its own for every turn of every player on every process."""

import json

from countdown_selfplay.random_state import seed_from
from countdown_selfplay.training.book import Frame


def counted():
    frame = Frame()
    frame.count("prover/0", 32, 200)
    frame.count("conjecturer", 16, 90)
    frame.count("prover/0", 32, 180)
    frame.rounds = 2
    return frame


def test_samples_and_tokens_add_up_by_player():
    frame = counted()
    assert frame.samples == {"prover/0": 64, "conjecturer": 16} and frame.generations == 80
    assert frame.tokens == {"prover/0": 380, "conjecturer": 90}
    spent = frame.spent()
    frame.count("prover/0", 1, 1)
    assert spent["samples"]["prover/0"] == 64  # a copy


def test_a_rollback_takes_back_the_rounds_and_not_the_cost():
    """Four rounds were played; the checkpoint is that of two. A player of the checkpoint alone keeps its count."""
    early, frame = counted().state_dict(), counted()
    early["samples"]["prover/1"] = 7
    frame.count("prover/0", 64, 400)
    frame.rounds = 4
    spent = frame.spent()
    frame.load_state_dict(early)
    assert (frame.rounds, frame.generations) == (2, 87)
    frame.keep_spent(spent)
    assert (frame.rounds, frame.attempt) == (2, 0)
    assert frame.samples == {"prover/0": 128, "conjecturer": 16, "prover/1": 7}
    assert frame.tokens == {"prover/0": 780, "conjecturer": 90}


def test_it_survives_json():
    frame, again = counted(), Frame()
    frame.attempt = 3
    saved = json.loads(json.dumps(frame.state_dict()))
    again.load_state_dict(saved)
    assert again == frame
    again.count("prover/0", 1, 1)
    assert saved == frame.state_dict()  # loading copies


def keys():
    """(seed, "rollout", attempt, round, turn, player, rank) of 1,000 turns, as training/rollouts.py makes them."""
    for round_ in range(25):
        for turn in range(1, 6):
            for role in ("prover/0", "prover/1", "conjecturer", "guide"):
                for rank in range(2):
                    frame = Frame(rounds=round_)
                    frame.turn = turn
                    yield (7, "rollout", *frame.key(), role, rank)


def test_a_thousand_turns_have_a_thousand_seeds():
    assert len({seed_from(*key) for key in keys()}) == 25 * 5 * 4 * 2 == 1000


def test_an_attempt_has_other_numbers_than_the_one_that_was_given_up():
    first, second = Frame(rounds=3), Frame(rounds=3, attempt=1)
    assert seed_from(7, "rollout", *first.key(), "prover", 0) != seed_from(7, "rollout", *second.key(), "prover", 0)
