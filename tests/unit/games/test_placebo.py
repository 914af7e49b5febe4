# Tests: games/health.py, games/propose_and_solve.py
"""Shuffled rewards: the same rewards, on other proposals, and everything else as it was."""

import math

import numpy as np
import pytest

from countdown_selfplay.contract.game import Outcome, Proposal
from countdown_selfplay.countdown import Problem
from countdown_selfplay.games.health import shuffled
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve, Settings
from countdown_selfplay.proposers.policies import Policies
from countdown_selfplay.testing import ScriptedRound, in_ranks

ANCHORS = [Problem((1, 2, 3), 6), Problem((2, 2, 2), 8), Problem((4, 5, 6), 15), Problem((9, 1, 1), 9)]
TEXTS = ["3 5 7 = 22", "2 3 4 = 24", "?", "1 2 4 = 7", "6 5 4 = 15", "2 5 7 = 14"]
RIGHT = {22: "3 * 5 + 7", 24: "2 * 3 * 4", 7: "1 + 2 + 4", 15: "6 + 5 + 4", 14: "2 + 5 + 7"}
SOLVED = {22: 2, 24: 1, 7: 0}  # of 4: p = .5, .25, 0


class Remembers(Policies):
    """What it was told of each round."""

    def learn(self, round, outcome):
        self.outcome = outcome
        return super().learn(round, outcome)


def play(shuffle, rounds=1, rank=0, world=1, gather=list, **changes):
    """Three of six slots are the conjecturer's: five proposals may be played, of which two find no slot."""

    def write(player, row, i):
        if player == "conjecturer":
            return TEXTS[i]
        return RIGHT[row["target"]] if i < SOLVED.get(row["target"], 0) else "1 + 1"

    proposer = Remembers()
    game = ProposeAndSolve(proposer, settings=Settings(shuffled_rewards=shuffle, novelty_window=1, **changes))
    made = ScriptedRound(write, {"prover": (6, 4), "conjecturer": (6, 6)}, rank=rank, world=world, gather=gather)
    for at in range(rounds):
        result = game.play(made, ANCHORS)
        made = made.next() if at + 1 < rounds else made
    return result, proposer.outcome, game, made


def test_the_rewards_are_kept_and_credited_on_other_proposals():
    # tent is .75 at p = .5, 1 - 2.5 x .15 = .625 at .25 and 0 at 0; the unreadable one earns 0, two found no slot
    (_, straight, _, _), (_, placebo, _, _) = play(False), play(True)
    assert straight.rewards_N[:4] == pytest.approx([0.75, 0.625, 0, 0]) and np.isnan(straight.rewards_N[4:]).all()
    assert sorted(placebo.rewards_N[:4]) == pytest.approx([0, 0, 0.625, 0.75])
    assert np.isnan(placebo.rewards_N[4:]).all()  # NaN stays with what was not measured
    assert placebo.rewards_N[:4] != pytest.approx(straight.rewards_N[:4])
    result, outcome, _, _ = play(True)
    turn = result.turns[-1]
    assert turn.rewards_B.tolist() == pytest.approx(outcome.rewards_N.tolist(), nan_ok=True)
    # leave-one-out over the four that have a reward, (1.375 - r) / 3 is the mean of the others; 0 for the rest
    known = outcome.rewards_N[:4]
    assert turn.advantages_B.tolist() == pytest.approx([*(known - (1.375 - known) / 3), 0, 0])


def test_nothing_but_the_conjecturers_credit_differs_and_all_processes_shuffle_alike():
    (straight, first, game, asked), (placebo, second, same, too) = play(False, 2), play(True, 2)
    assert straight.metrics == placebo.metrics and straight.samples == placebo.samples
    assert straight.solved == placebo.solved and asked.rows == too.rows
    assert game.archive.state_dict() == same.archive.state_dict()
    assert first.problem_of == second.problem_of and np.array_equal(first.correct_MPG, second.correct_MPG)
    assert straight.turns[0].advantages_B.tolist() == placebo.turns[0].advantages_B.tolist()
    assert straight.turns[0].rollout.role == "prover"

    def told(rank, gather):
        proposals = play(True, rank=rank, world=2, gather=gather)[1].rewards_N
        return proposals.tolist()

    first, second = in_ranks(2, told)
    assert first == pytest.approx(second, nan_ok=True)


def test_over_many_rounds_a_reward_says_nothing_of_its_proposal_but_moves_what_may_be_trained_on():
    """Ten proposals with rewards 0 to 9, and two without: the mean reward of each over 4,000 shuffles is 4.5, with a
    standard error of sqrt(8.25 / 4000) = .045, where unshuffled the i-th earns i."""
    rewards = np.array([*range(10), math.nan, math.nan])
    outcome = Outcome([Proposal(None)] * 12, rewards, [], [None] * 12, np.zeros((1, 0, 1)), [])
    means = np.mean([shuffled(outcome, seed).rewards_N for seed in range(4000)], axis=0)
    assert means[:10] == pytest.approx(np.full(10, 4.5), abs=5 * 0.0454) and np.isnan(means[10:]).all()
    assert outcome.rewards_N[:10].tolist() == list(range(10))  # the game's own copy is as it was
    trainable = np.array([True, False, False, True, False])
    rewards = np.array([4.0, 1.0, 0.0, 3.0, math.nan])
    outcome = Outcome([Proposal(None)] * 5, rewards, [], [None] * 5, np.zeros((1, 0, 1)), [], trainable_N=trainable)
    for seed in range(20):
        found = shuffled(outcome, seed)
        assert [bool(t) for t in found.trainable_N] == [reward in (3.0, 4.0) for reward in found.rewards_N]
    outcome = Outcome([Proposal(None)], np.array([math.nan]), [], [None], np.zeros((1, 0, 1)), [])
    assert np.isnan(shuffled(outcome, 0).rewards_N).all()
