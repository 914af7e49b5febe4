# Tests: guides/__init__.py, guides/judge.py, guides/rubric.py
"""Guides: who scores a proposal beside the provers (seed 003, section 3.2), and what is refused."""

import numpy as np
from tests.unit.proposers.test_targets import DOMAIN, EASY, FAR, HARD, played, script, turn_of

from countdown_selfplay.contract.game import Outcome, Proposal
from countdown_selfplay.countdown import Problem
from countdown_selfplay.countdown.guide import _steps, rubric
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve
from countdown_selfplay.guides import checked_scores
from countdown_selfplay.guides.judge import Judge
from countdown_selfplay.guides.rubric import Rubric
from countdown_selfplay.proposers.targets import Targets
from countdown_selfplay.rewards import make_conjecturer_reward
from countdown_selfplay.testing import ScriptedRound

STEP, SUM, PADDED = Problem((4, 9), 13), Problem((6, 7), 13), Problem((1, 3, 5), 15)


def outcome(rate_P, *pairs, solutions=None):
    """`pairs`: (target, problem), each with its solve rate out of four."""
    proposals = [Proposal(problem, request={"target": target}) for target, problem in pairs]
    bits = np.array([[[i < round(4 * rate) for i in range(4)] for rate in rate_P]], dtype=float)
    texts = solutions or ["1" if rate else None for rate in rate_P]
    nan_N = np.full(len(pairs), np.nan)
    problems = [problem for _, problem in pairs]
    return proposals, Outcome(proposals, nan_N, problems, list(range(len(pairs))), bits, texts)


def test_the_rubric_scores_what_was_solved():
    # 2 * ( 4 + 9 ): 4 9 = 13 is its last step but one, 5 + 2 + 1; 6 7 = 13 is no part of 6 * 7 + 8, but shares two of
    # three numbers (2 + 2 + 1); what nobody solved is not reviewed
    proposals, found = outcome([0.5, 0.5, 0.0], (HARD, STEP), (FAR, SUM), (EASY, PADDED))
    guide = type("Narrow", (Rubric,), {"scale": (5, 8)})()  # both ends belong to a scale
    scores = checked_scores(guide, ScriptedRound(lambda *_: "", {"prover": (2, 4)}, DOMAIN), proposals, found)
    assert scores[:2].tolist() == [8, 5] and np.isnan(scores[2])


def test_numbers_that_cancel_or_only_multiply_by_one_are_redundant_and_an_artificial_value_is_complex():
    plain, redundant = ["3 * 5 + 7", "-3 + 5"], ["( 3 - 3 ) + 5 * 2", "1 * 7 + 3", "7 / 1 + 3", "4 / 4 + 9"]
    assert [_steps(solution)[0] for solution in plain + redundant] == [False] * 2 + [True] * 4
    # 99 * 98 - 97 * 100 = 2: values of 9,702, more than 10 times the greatest number
    of = Problem((2, 3, 5, 7), 24), Problem((99, 98, 97, 100), 2)
    assert rubric(*of, solution="99 * 98 - 97 * 100").complexity == rubric(*of).complexity + 1


def test_a_judge_reviews_what_was_solved_and_its_failures_count_as_the_mean():
    reviews = {"score 4 9 = 13 like 2 4 9 = 26 :": "3 1 0", "score 6 7 = 42 like 6 7 8 = 50 :": "9 0 0"}
    solved = script({"4 9 = 13 :": 2, "6 7 = 42 :": 2})
    round = played({}, {"prover": (8, 4), "conjecturer": (4, 1), "guide": (8, 1)})
    round.write = lambda player, row, i: reviews[row["prompt"]] if player == "guide" else solved(player, row, i)
    reward = make_conjecturer_reward("sgs", {"starved": "paper"})
    result = ProposeAndSolve(Targets(), reward, Judge()).play(round, [])
    assert [row["prompt"] for row in round.rows["guide"]] == list(reviews)  # not 3 5 = 15, which nobody solved
    # 3 + 2 + 0 = 5; the other says 9 of 5, is not read, and counts as 5 too; the problem that nobody solved earns 0
    assert result.metrics["guide/format_rate"] == 0.5 and result.metrics["guide/reviews"] == 2
    assert result.metrics["round/reward_r_guide"] == 5
    assert turn_of(result).advantages_B.tolist() == [0.0, 1.0, 1.0]
