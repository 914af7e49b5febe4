# Tests: games/propose_and_solve.py
"""What the joint round tells the conjecturer's reward, and what refused proposals earn; scripted, without a model."""

import numpy as np

from countdown_selfplay.countdown import CountdownDomain, Problem
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve, Settings
from countdown_selfplay.testing import ScriptedRound

TINY = CountdownDomain.tiny()
ANCHORS = [Problem((1, 2, 3), 6), Problem((2, 2, 2), 8), Problem((4, 5, 6), 15), Problem((9, 1, 1), 9)]
SOLVED = {"3,5,7=22": ["3 * 5 + 7", "3 + 5 + 7", "3 + 5 + 7", "3 * 5 + 7"]}  # 2 of 4 right: p = 0.5


def game_of(reward, **settings):
    return ProposeAndSolve(reward=reward, settings=Settings(samples_per_log=99, **settings))


def play(proposals, game, excluded=()):
    """One round of four slots, two of them the anchors', in which the conjecturer writes `proposals`; its rewards
    before credit."""
    count = len(proposals)

    def write(player, row, i):
        if player == "conjecturer":
            return proposals[i]
        return SOLVED.get(Problem(tuple(row["numbers"]), row["target"]).key, ["1 + 1"] * 4)[i]

    sizes = {"prover": (16, 4), "conjecturer": (count, count)}
    played = ScriptedRound(write, sizes, TINY, game.archive.rounds, held_out=frozenset(excluded))
    result = game.play(played, ANCHORS)
    return [sample["reward"] for sample in result.samples if sample["role"] == "conjecturer"]


def test_a_reward_sees_the_played_problems_and_what_was_played_before():
    seen = []

    def reward(solve_rate_P, ctx):
        seen.append((solve_rate_P.tolist(), ctx))
        return np.zeros(len(solve_rate_P))

    game = game_of(reward)
    play(["7 3 5 = 22", "?", "2 3 4 = 24", "6 5 4 = 15"], game)
    play(["?", "?", "1 1 1 = 99", ""], game)
    play(["2 3 4 = 24", "?", "?", "?"], game)
    rates, ctx = seen[0]
    assert rates == [0.5, 0.0] and ctx.problems == (Problem((7, 3, 5), 22), Problem((2, 3, 4), 24))
    assert (ctx.attempts, ctx.round, ctx.archive, ctx.recent_rates) == (4, 0, (), ())
    assert ctx.spec == TINY.spec and ctx.rules == TINY.rules and ctx.guide_P is None
    # a starved round hands over no problems, and leaves archive and mean rates as they were
    assert seen[1][0] == [] and seen[1][1].problems == ()
    assert seen[2][1].archive == seen[1][1].archive == ("3,5,7=22", "2,3,4=24")
    assert seen[2][1].recent_rates == seen[1][1].recent_rates == (0.25,)
    assert game.archive.played == ["3,5,7=22", "2,3,4=24"] and game.archive.recent_rates == [0.25, 0.0]


def test_the_soft_penalty_plays_a_repeated_problem_and_pays_it_less():
    game = game_of("difficulty_diversity")
    # p = .5 is in the band: first 0.5 x 1 (empty archive), then 0.5 x 0
    assert play(["3 5 7 = 22", "?"], game)[0] == 0.5
    assert play(["5 3 7 = 22", "?"], game)[0] == 0.0
