# Tests: games/propose_and_solve.py, games/health.py
"""Rounds with a symbolic proposer, with two provers, with a guide, with shuffled rewards, and on two processes."""

import math

import numpy as np
import pytest
from tests.unit.games.test_propose_and_solve import ANCHORS, SOLVED, TINY

from countdown_selfplay.contract.game import BaseGuide, BaseProposer, Outcome, Proposal
from countdown_selfplay.contract.metric import Metric
from countdown_selfplay.curriculum.admission import examine
from countdown_selfplay.games.health import shuffled
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve, Settings
from countdown_selfplay.proposers import make_proposer
from countdown_selfplay.proposers.policies import Policies
from countdown_selfplay.testing import ScriptedRound, in_ranks
from countdown_selfplay.training.parts import declared_metrics

HALF = SOLVED["3,5,7=22"]  # 2 of 4 right


def answers(script):
    """A prover that answers 3,5,7=22 as `script` says, and everything else wrongly."""
    return lambda player, row, i: script[player][i] if row["target"] == 22 else "1 + 1"


class Symbolic(BaseProposer):
    """Proposes what it is told to; remembers what came of it."""

    def __init__(self, texts):
        self.texts, self.outcomes = texts, []

    def propose(self, round, anchors):
        return examine(round.domain, self.texts, [{"arm": i} for i in range(len(self.texts))])

    def learn(self, round, outcome):
        self.outcomes.append(outcome)
        return []

    def state_dict(self):
        return {"rounds": len(self.outcomes)}

    def load_state_dict(self, state):
        self.outcomes = [None] * state["rounds"]

    metrics = (Metric("round/learned", "Rounds that it has learned from, this one included.", trip=(0, 9)),)

    def logged(self):
        return {"round/learned": len(self.outcomes)}


TEXTS = ["3 5 7 = 22", "7 5 3 = 22", "2 3 4 = 24", "6 5 4 = 15", "?"]  # played, duplicate, played, no slot, unreadable


def symbolic(**settings):
    proposer = Symbolic(TEXTS)
    game = ProposeAndSolve(proposer, settings=Settings(**settings))
    played = ScriptedRound(answers({"prover": HALF}), {"prover": (4, 4)})  # 4 slots, 2 of them the anchors'
    return game, proposer, game.play(played, ANCHORS)


def test_what_a_proposer_logs_is_declared_and_its_state_is_the_games():
    game, _, result = symbolic()
    assert result.metrics["round/learned"] == 1
    (declared,) = [m for m in declared_metrics(game, {"prover": ["prover"]}) if m.name == "round/learned"]
    assert declared.trip == (0, 9)
    game, _, _ = symbolic()
    state = game.state_dict()
    assert state["proposer"] == {"rounds": 1} and state["archive"]["played"] == ["3,5,7=22", "2,3,4=24"]
    again = ProposeAndSolve(Symbolic([]))
    again.load_state_dict(state)
    assert again.archive == game.archive and len(again.proposer.outcomes) == 1


def test_a_symbolic_proposer_learns_what_became_of_each_proposal_shared_duplicates_too():
    _, proposer, result = symbolic()
    (outcome,) = proposer.outcomes
    assert [(p.request["arm"], p.by) for p in outcome.proposals] == [(arm, None) for arm in range(5)]
    # tent(.5) = .75; a duplicate earns 0; tent(0) = 0; not played: not measured; unreadable: 0
    np.testing.assert_array_equal(outcome.rewards_N, [0.75, 0.0, 0.0, np.nan, 0.0])
    assert outcome.problem_of == [0, None, 1, None, None]
    assert [p.target for p in outcome.problems] == [22, 24, 6, 8]
    assert outcome.correct_MPG.shape == (1, 4, 4) and outcome.solve_rate_P.tolist() == [0.5, 0.0, 0.0, 0.0]
    assert outcome.solution_P == [HALF[0], None, None, None]  # without a guide too
    assert [turn.rollout.role for turn in result.turns] == ["prover"]
    _, proposer, _ = symbolic(duplicate_proposals="share")
    assert proposer.outcomes[0].problem_of == [0, 0, 1, None, None]
    assert proposer.outcomes[0].rewards_N[:2].tolist() == [0.75, 0.75]


def test_two_provers_are_averaged_and_one_is_no_list_of_provers():
    seen = []

    def reward(solve_rate_P, ctx):
        seen.append((solve_rate_P.tolist(), ctx))
        return solve_rate_P

    texts = ["3 5 7 = 22", "2 3 4 = 24"]
    write = answers({"prover/0": HALF, "prover/1": ["7 + 3 * 5"] * 4})  # half of them right, all of them right
    sizes = {"prover/0": (4, 4), "prover/1": (4, 4), "conjecturer": (2, 2)}
    both = lambda player, row, i: texts[i] if player == "conjecturer" else write(player, row, i)  # noqa: E731
    played = ScriptedRound(both, sizes)
    result = ProposeAndSolve(reward=reward).play(played, ANCHORS)
    ((rates, ctx),) = seen
    assert rates == [0.75, 0.0] and ctx.attempts == 8
    assert ctx.prover_rates_MP.tolist() == [[0.5, 0.0], [1.0, 0.0]]
    assert result.metrics["round/solve_rate_mean"] == 0.375
    assert result.metrics["prover/0/correct_rate"] == 2 / 16 and result.metrics["prover/1/correct_rate"] == 4 / 16
    # one group in four of the first has a signal; every answer of the second to a problem is as good as the others
    assert result.metrics["prover/0/zero_signal_groups"] == 0.75 and result.metrics["prover/1/zero_signal_groups"] == 1
    assert [turn.rollout.role for turn in result.turns] == ["prover/0", "prover/1", "conjecturer"]
    assert result.turns[2].rewards_B.tolist() == [0.75, 0.0]
    assert result.solved == [("3,5,7=22", 6, 8), ("2,3,4=24", 0, 8), ("1,2,3=6", 0, 8), ("2,2,2=8", 0, 8)]
    assert [len(played.rows[player]) for player in ("prover/0", "prover/1")] == [4, 4]
    seen = []
    game = ProposeAndSolve(Symbolic(["3 5 7 = 22"]), lambda p, ctx: seen.append(ctx) or p)
    game.play(ScriptedRound(answers({"prover": HALF}), {"prover": (4, 4)}), ANCHORS)
    assert seen[0].prover_rates_MP is None and seen[0].attempts == 4


class Guide(BaseGuide):
    scale = (0.0, 1.0)

    def score(self, round, proposals, outcome):
        self.scored = [(p.problem.key, rate) for p, rate in zip(proposals, outcome.solve_rate_P, strict=False)]
        assert outcome.solution_P[0] == "7 + 3 * 5" and np.isnan(outcome.rewards_N).all()
        return np.array([0.25, 0.5])

    def learn(self, round, outcome):
        self.outcome = outcome
        return []


def test_a_guide_scores_what_was_played_and_learns_a_solution_to_it():
    guide, seen = Guide(), []
    game = ProposeAndSolve(Symbolic(TEXTS), lambda p, ctx: seen.append(ctx.guide_P.tolist()) or p, guide)
    write = answers({"prover/0": ["1 + 1"] * 4, "prover/1": ["2 + 2", "7 + 3 * 5", "3 * 5 + 7", "1"]})
    game.play(ScriptedRound(write, {"prover/0": (4, 4), "prover/1": (4, 4)}), ANCHORS)
    assert guide.scored == [("3,5,7=22", 0.25), ("2,3,4=24", 0.0)] and seen == [[0.25, 0.5]]
    assert guide.outcome.solution_P == ["7 + 3 * 5", None, None, None]


def game_of(reward, **settings):
    return ProposeAndSolve(reward=reward, settings=Settings(samples_per_log=99, **settings))


def proposed(proposals, game, excluded=()):
    """One round of four slots, two of them the anchors', in which the conjecturer writes `proposals`; its rewards
    before credit."""

    def write(player, row, i):
        if player == "conjecturer":
            return proposals[i]
        return HALF[i] if row["target"] == 22 else "1 + 1"

    sizes = {"prover": (4, 4), "conjecturer": (len(proposals),) * 2}
    played = ScriptedRound(write, sizes, TINY, game.archive.rounds, held_out=frozenset(excluded))
    result = game.play(played, ANCHORS)
    return [sample["reward"] for sample in result.samples if sample["role"] == "conjecturer"]


def game_by(proposer, **kwargs):
    return ProposeAndSolve(make_proposer(proposer, kwargs))


def test_a_proposer_of_the_same_class_goes_on_and_another_starts_anew():
    there, here = game_by("tiers", start=[3, 4]), game_by("targets", batch=6)
    fresh = here.proposer.state_dict()
    saved = there.state_dict()
    here.load_state_dict(saved)
    assert here.proposer.state_dict() == fresh and here.archive.state_dict() == saved["archive"]
    there, here = game_by("tiers", start=[2, 3]), game_by("tiers", start=[3, 4])
    here.load_state_dict(there.state_dict())
    assert here.proposer.state_dict() == there.proposer.state_dict()


WRITTEN = ["3 5 7 = 22", "2 3 4 = 24", "?", "1 2 4 = 7", "6 5 4 = 15", "2 5 7 = 14"]
RIGHT = {22: "3 * 5 + 7", 24: "2 * 3 * 4", 7: "1 + 2 + 4", 15: "6 + 5 + 4", 14: "2 + 5 + 7"}
RIGHT_OF_4 = {22: 2, 24: 1, 7: 0}  # p = .5, .25, 0


class Remembers(Policies):
    """What it was told of each round."""

    def learn(self, round, outcome):
        self.outcome = outcome
        return super().learn(round, outcome)


def play(shuffle, rounds=1, rank=0, world=1, gather=list, **changes):
    """Three of six slots are the conjecturer's: five proposals may be played, of which two find no slot."""

    def write(player, row, i):
        if player == "conjecturer":
            return WRITTEN[i]
        return RIGHT[row["target"]] if i < RIGHT_OF_4.get(row["target"], 0) else "1 + 1"

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
