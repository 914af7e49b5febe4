# Tests: random_state.py, training/book.py
"""Every turn of every player on every process has random numbers of its own."""

import torch

from countdown_selfplay.random_state import private_generator, seed_from
from countdown_selfplay.training.book import Frame


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


def test_their_first_four_draws_differ_too():
    # 63-bit draws: two equal ones among 4,000 by chance have a probability of 8e6 / 9e18
    draws = set()
    for key in keys():
        with private_generator(torch.device("cpu"), *key):
            draws.update(int(torch.randint(2**63 - 1, ())) for _ in range(4))
    assert len(draws) == 4000


def test_an_attempt_has_other_numbers_than_the_one_that_was_given_up():
    first, second = Frame(rounds=3), Frame(rounds=3, attempt=1)
    assert seed_from(7, "rollout", *first.key(), "prover", 0) != seed_from(7, "rollout", *second.key(), "prover", 0)
