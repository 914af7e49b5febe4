# Tests: rewards/student_progress.py, games/progress.py, training/student.py
"""Student progress (after SOAR, 2601.18778) by hand, and what a game hands to it."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from countdown_selfplay.contract.round import Rollout, Turn
from countdown_selfplay.countdown import CountdownDomain, Problem
from countdown_selfplay.errors import ConfigError, RewardError
from countdown_selfplay.games.progress import held_back, rise_of
from countdown_selfplay.rewards import RewardContext, make_conjecturer_reward
from countdown_selfplay.rewards.student_progress import StudentProgress, student_of
from countdown_selfplay.testing import ScriptedRound
from countdown_selfplay.training.credit import with_right
from countdown_selfplay.training.student import hold_back

RATES = np.array([0.5, 0.25, 0.0, 1.0])


def test_the_largest_rise_of_a_round_earns_one_and_a_fall_nothing():
    reward = make_conjecturer_reward("student_progress")
    known = RewardContext(rise_P=np.array([0.2, -0.4, 0.0, 0.1]))
    assert reward(RATES, known).tolist() == [1.0, 0.0, 0.0, 0.5]  # over .2
    assert reward(RATES, RewardContext()).tolist() == [0.0] * 4  # nothing held back yet
    assert reward(RATES, RewardContext(rise_P=np.full(4, -0.1))).tolist() == [0.0] * 4
    with pytest.raises(RewardError, match=r"got rises of shape \(4,\) for 2 solve rates"):
        reward(RATES[:2], known)


@pytest.mark.parametrize(
    ("kwargs", "sentence"),
    [
        ({"set_size": 0}, r"`set_size` \(0\) .* must be"),
        ({"set_size": 1.5}, r"`set_size` \(1.5\) .* must be a whole number"),
        ({"held_back": 0.0}, r"`held_back` \(0.0\) .* must be"),
        ({"held_back": 1}, r"`held_back` \(1\) .* must be"),
    ],
)
def test_sizes_and_shares_out_of_range_are_refused(kwargs, sentence):
    with pytest.raises(ConfigError, match=sentence):
        make_conjecturer_reward("student_progress", kwargs)


def test_an_object_out_of_range_is_refused_where_it_is_made():
    for kwargs in ({"set_size": 0}, {"held_back": 1.0}):
        with pytest.raises(ConfigError, match="needs a set_size of at least 1 and 0 < held_back < 1, got"):
            StudentProgress(**kwargs)


def test_it_is_found_inside_composed_rewards():
    part = {"name": "student_progress", "weight": 0.5, "kwargs": {"set_size": 4}}
    assert student_of(make_conjecturer_reward("sum", {"terms": ["tent", part]})).set_size == 4
    assert student_of(make_conjecturer_reward("clip", {"of": "student_progress"})).set_size == 1
    assert student_of(make_conjecturer_reward("product", {"factors": ["tent", "learning_progress"]})) is None
    assert student_of(lambda solve_rate_P: solve_rate_P) is None


def test_a_quarter_of_the_frontier_rounded_up_is_held_back():
    """0 < p <= 1/2 at places 1, 2, 4, 5, 6: a quarter of five is two; without any nothing is."""
    rates = np.array([0.0, 0.125, 0.5, 0.625, 0.25, 0.25, 0.375, 1.0])
    held = held_back(0.25, 7, rates)
    assert sum(held) == 2 and all(0 < rate <= 0.5 for rate, back in zip(rates, held, strict=True) if back)
    assert held == held_back(0.25, 7, rates) and sum(held_back(0.25, 7, np.array([0.0, 1.0]))) == 0
    drawn = {tuple(held_back(0.25, seed, rates)) for seed in range(40)}
    assert len(drawn) == 10  # all pairs of five


def test_a_share_that_floats_round_up_is_not_a_problem_more():
    """.07, .14 and .28 of 100, 50 and 25 problems are 7, and in floats a hair more."""
    shares = {0.07: 100, 0.14: 50, 0.28: 25}
    assert all(share * count > 7 for share, count in shares.items())
    assert [sum(held_back(share, 0, np.full(count, 0.5))) for share, count in shares.items()] == [7, 7, 7]


def test_parts_that_would_measure_a_round_in_two_ways_are_refused():
    """A round has one `rise_P`: the second part would be paid by the first one's sets."""
    terms = [{"name": "student_progress", "kwargs": {"set_size": size}} for size in (2, 4)]
    reward = make_conjecturer_reward("sum", {"terms": terms})
    with pytest.raises(ConfigError, match=r"set_size 2, held_back 0\.25 and set_size 4, held_back 0\.25"):
        student_of(reward)
    assert student_of(make_conjecturer_reward("product", {"factors": terms[:1] * 2})).set_size == 2


def test_a_process_without_a_problem_holds_nothing_back():
    """Its bits are torch.tensor([]), which are floats: to imitate the rest of a turn took them for bools."""
    turn = Turn(Rollout("prover", [], [], 4, []), torch.zeros(0), torch.zeros(0), group=4)
    hold_back(SimpleNamespace(learners={}), turn, torch.tensor([]), 0, ())
    assert turn.held_B.dtype == torch.bool and with_right(turn).selected_B.tolist() == []
    turn = Turn(Rollout("prover", [{}], ["a", "b"], 2), torch.zeros(2), group=2)
    with pytest.raises(RewardError, match=r"held-back bits of shape \(1,\) for 2 samples"):
        hold_back(SimpleNamespace(learners={}), turn, torch.tensor([True]), 0, ())


def test_a_problem_has_the_mean_over_provers_that_know_a_rise():
    """Prover 0 raises by .1 and -.3, prover 1 by .5 and 0; without a step of prover 1, prover 0's alone."""
    domain, sizes = CountdownDomain.tiny(), {"prover/0": (4, 2), "prover/1": (4, 2)}
    problems = [Problem((3, 5, 7), 15), Problem((2, 4, 6), 12)]
    rows = [domain.prove_row(problem) for problem in problems]
    raised = {"prover/0": [0.1, -0.3], "prover/1": [0.5, 0.0]}
    round = ScriptedRound(lambda *_: "3+5+7", sizes, raised=lambda rollout, size: torch.tensor(raised[rollout.role]))
    answers = [round.sample(role, rows, problems=problems) for role in sizes]
    np.testing.assert_allclose(rise_of(round, answers, 1, 2), [0.3, -0.15], atol=1e-7)
    np.testing.assert_allclose(rise_of(round, answers, 1, 1), [0.3], atol=1e-7)
    alone = round.next(raised=lambda rollout, size: torch.tensor([0.1, math.nan]) if rollout.role[-1] == "0" else None)
    np.testing.assert_allclose(rise_of(alone, answers, 1, 2), [0.1, 0.0], atol=1e-7)
    assert rise_of(round.next(raised=None), answers, 1, 2) is None
