# Tests: rewards/learning_progress.py, games/propose_and_solve.py
"""Learning progress (2609.30063) by hand, and what a game hands to it."""

import math

import numpy as np
import torch

from countdown_selfplay.countdown import CountdownDomain, Problem
from countdown_selfplay.games.propose_and_solve import progress_of
from countdown_selfplay.rewards import RewardContext, make_conjecturer_reward
from countdown_selfplay.rewards.learning_progress import needs_progress
from countdown_selfplay.testing import ScriptedRound

RATES = np.array([0.5, 0.25, 0.0, 1.0])
KNOWN = RewardContext(progress_P=np.array([0.2, -0.4, 0.0, 0.1]))


def test_the_largest_movement_of_a_round_earns_one_in_composed_rewards_too():
    reward = make_conjecturer_reward("learning_progress")
    assert reward(RATES, KNOWN).tolist() == [0.5, 1.0, 0.0, 0.25]  # over .4
    only_up = make_conjecturer_reward("learning_progress", {"absolute": False})
    assert only_up(RATES, KNOWN).tolist() == [1.0, 0.0, 0.0, 0.5]  # over .2
    assert reward(RATES, RewardContext()).tolist() == [0.0] * 4
    still = RewardContext(progress_P=np.zeros(4))
    assert reward(RATES, still).tolist() == [0.0] * 4
    part = {"name": "learning_progress", "weight": 0.5}
    assert needs_progress(make_conjecturer_reward("sum", {"terms": ["tent", part]}))
    assert needs_progress(make_conjecturer_reward("clip", {"of": "learning_progress"}))
    assert not needs_progress(make_conjecturer_reward("product", {"factors": ["tent", "learnability"]}))
    assert not needs_progress(lambda solve_rate_P: solve_rate_P)


def test_a_problem_has_the_mean_over_right_answers_and_then_over_provers():
    """Two problems, two answers each. Prover 0: .1 and .3 on the first, none right on the second; prover 1: .4 on the
    first, -.2 on the second. Means: (.2 + .4) / 2 and -.2."""
    nan = math.nan
    moved = {"prover/0": [0.1, 0.3, nan, nan], "prover/1": [nan, 0.4, -0.2, nan]}
    domain = CountdownDomain.tiny()
    problems = [Problem((3, 5, 7), 15), Problem((2, 4, 6), 12)]
    rows = [domain.prove_row(problem) for problem in problems]
    sizes = {"prover/0": (2, 2), "prover/1": (2, 2)}
    round = ScriptedRound(lambda *_: "3+5+7", sizes, moved=lambda rollout: torch.tensor(moved[rollout.role]))
    answers = [round.sample(role, rows, problems=problems) for role in sizes]
    np.testing.assert_allclose(progress_of(round, answers, 2), [0.3, -0.2], atol=1e-7)
    np.testing.assert_allclose(progress_of(round, answers, 1), [0.3], atol=1e-7)
    assert progress_of(round.next(moved=None), answers, 2).tolist() == [0.0, 0.0]


def test_the_progress_of_the_objective_weighs_all_answers_by_their_advantages():
    """RLOO of two answers: advantages are the reward less the other's. 3+5+7 is 15: right, then wrong answers of the
    first problem (advantages 1, -1), two right ones of the second (0, 0)."""
    domain = CountdownDomain.tiny()
    problems = [Problem((3, 5, 7), 15), Problem((2, 4, 6), 12)]
    rows = [domain.prove_row(problem) for problem in problems]
    write = lambda _, row, i: "2+4+6" if row["target"] == 12 else ("3+5+7", "3")[i]  # noqa: E731
    moved = lambda rollout: torch.tensor([0.1, 0.3, 0.5, 0.7])  # noqa: E731
    round = ScriptedRound(write, {"prover": (2, 2)}, moved=moved)
    found = round.sample("prover", rows, problems=problems)
    found.rewards_B = found.correct_B
    np.testing.assert_allclose(progress_of(round, [found], 2, "objective"), [(0.1 - 0.3) / 2, 0.0], atol=1e-7)
    of = {"name": "learning_progress", "kwargs": {"of": "objective"}}
    assert needs_progress(make_conjecturer_reward("sum", {"terms": ["tent", of]})) == "objective"
