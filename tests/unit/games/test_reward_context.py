"""What the joint round tells the conjecturer's reward, and what refused proposals earn; scripted, without a model."""

import math

import numpy as np
import torch

from countdown_selfplay.countdown import CountdownDomain, Problem
from countdown_selfplay.curriculum import CurriculumState
from countdown_selfplay.games.base import GameSettings, Rollout, RoundContext
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve
from countdown_selfplay.objectives import make_objective
from countdown_selfplay.rewards import make_conjecturer_reward

TINY = CountdownDomain.tiny()
ANCHORS = [Problem((1, 2, 3), 6), Problem((2, 2, 2), 8), Problem((4, 5, 6), 15), Problem((9, 1, 1), 9)]
SOLVED = {"3,5,7=22": ["3 * 5 + 7", "3 + 5 + 7", "3 + 5 + 7", "3 * 5 + 7"]}  # 2 of 4 right: p = 0.5


def play(proposals, reward, state, excluded=(), **changes):
    """One round in which the conjecturer writes `proposals`; its rewards before credit."""
    settings = dict(slots=4, anchor_slots=2, proposals=len(proposals), prover_group=4, operands=(3,), samples=99)
    settings = GameSettings(**settings, conjecturer_group=len(proposals), **changes)

    def rollout(role, rows):
        if role == "conjecturer":
            return Rollout(role, rows, list(proposals), torch.full((len(proposals),), math.nan), {})
        keys = [Problem(tuple(row["numbers"]), row["target"]).key for row in rows]
        texts = [SOLVED.get(key, ["1 + 1"] * 4)[i % 4] for i, key in enumerate(keys)]
        return Rollout(role, rows, texts, torch.zeros(len(rows)), {})

    context = RoundContext(
        settings=settings, domain=TINY, state=state, conjecturer_reward=reward,
        objectives={role: make_objective("rloo") for role in ("prover", "conjecturer")},
        excluded=frozenset(excluded), rollout=rollout, gather=lambda items: items,
    )  # fmt: skip
    result = ProposeAndSolve().play(context, ANCHORS)
    return [sample["reward"] for sample in result.samples if sample["role"] == "conjecturer"]


def test_a_reward_sees_the_played_problems_and_what_was_played_before():
    seen = []

    def reward(solve_rate_P, ctx):
        seen.append((solve_rate_P.tolist(), ctx))
        return np.zeros(len(solve_rate_P))

    state = CurriculumState()
    play(["7 3 5 = 22", "?", "2 3 4 = 24", "6 5 4 = 15"], reward, state)
    play(["?", "?", "1 1 1 = 99", ""], reward, state)
    play(["2 3 4 = 24", "?", "?", "?"], reward, state)
    rates, ctx = seen[0]
    assert rates == [0.5, 0.0] and ctx.problems == (Problem((7, 3, 5), 22), Problem((2, 3, 4), 24))
    assert (ctx.attempts, ctx.round, ctx.archive, ctx.recent_rates) == (4, 0, (), ())
    assert ctx.spec == TINY.spec and ctx.rules == TINY.rules and ctx.guide_P is None
    # a starved round hands over no problems, and leaves archive and mean rates as they were
    assert seen[1][0] == [] and seen[1][1].problems == ()
    assert seen[2][1].archive == seen[1][1].archive == ("3,5,7=22", "2,3,4=24")
    assert seen[2][1].recent_rates == seen[1][1].recent_rates == (0.25,)
    assert state.played == ["3,5,7=22", "2,3,4=24"] and state.recent_rates == [0.25, 0.0]


def test_refused_proposals_are_charged_by_their_reason():
    graded = make_conjecturer_reward("solvability_aware")
    proposals = [
        "3 5 7 = 22",
        "7 5 3 = 22",
        "?",
        "1 1 1 = 99",
        "1 1 200 = 99",
        "1 2 9 = 18",
        "2 3 4 = 24",
        "6 5 4 = 15",
    ]
    found = play(proposals, graded, CurriculumState(), excluded=["1,2,9=18"])
    # tent(.5); duplicate; unreadable; unsolvable; out of range; held out; tent(0); no slot left: not measured
    assert found == [0.75, -0.25, -1, -0.5, -0.75, -0.25, 0, None]
    assert (
        play(proposals, make_conjecturer_reward("tent"), CurriculumState(), invalid_reward=-0.125)[1:5] == [-0.125] * 4
    )


def test_a_problem_that_was_played_lately_is_charged_as_not_novel():
    graded, state = make_conjecturer_reward("solvability_aware", {"not_novel": -0.125}), CurriculumState()
    assert play(["3 5 7 = 22", "?"], graded, state, novelty_window=3) == [0.75, -1]
    assert play(["5 3 7 = 22", "?"], graded, state, novelty_window=3) == [-0.125, -1]


def test_the_soft_penalty_plays_a_repeated_problem_and_pays_it_less():
    reward, state = make_conjecturer_reward("difficulty_diversity"), CurriculumState()
    # p = .5 is in the band: first 0.5 x 1 (empty archive), then 0.5 x 0
    assert play(["3 5 7 = 22", "?"], reward, state)[0] == 0.5
    assert play(["5 3 7 = 22", "?"], reward, state)[0] == 0.0
