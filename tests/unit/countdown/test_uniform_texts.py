# Tests: countdown/moves.py, proposers/rungs.py
"""Problems drawn as texts, and proposals whose target is put right."""

from collections import Counter

import pytest

from countdown_selfplay.countdown import CountdownDomain, Problem, ProblemSpec, Rules, is_solvable
from countdown_selfplay.countdown.problem import heldout_key

from .oracle import reachable

MOVES = CountdownDomain(
    ProblemSpec((3, 4, 5), 1, 12, 1, 99), Rules(answer_format="bare"), "compact_moves", "compact", answers="moves"
)
TINY = CountdownDomain.tiny()


def test_texts_are_uniform_in_size_numbers_and_target_whether_there_is_a_solution_or_not():
    found = MOVES.random_text(3000, seed=1)
    sizes, targets = Counter(len(p.numbers) for p in found), Counter(p.target for p in found)
    # a third of 3,000 each, with a standard deviation of sqrt(3000 x 1/3 x 2/3) = 25.8
    assert all(abs(sizes[k] - 1000) < 4 * 26 for k in (3, 4, 5))
    # means 50 of 1 to 99 and 6.5 of 1 to 12, with standard errors of 28.6 / sqrt(3000) = .52, 3.45 / sqrt(12000) = .03
    assert abs(sum(p.target for p in found) / 3000 - 50) < 4 * 0.53 and set(targets) == set(range(1, 100))
    numbers = [n for p in found for n in p.numbers]
    assert abs(sum(numbers) / len(numbers) - 6.5) < 4 * 0.032 and set(numbers) == set(range(1, 13))
    threes = [p for p in found if len(p.numbers) == 3][:200]
    share = sum(p.target in reachable(list(p.numbers), 99) for p in threes) / 200
    assert 0.05 < share < 0.4  # most targets of three numbers are out of reach


def test_texts_are_new_training_problems_within_what_moves_may_reach():
    found = MOVES.random_text(200, seed=3)
    keys = [p.key for p in found]
    assert len(set(keys)) == 200 and not any(map(heldout_key, keys)) and found == MOVES.random_text(200, seed=3)
    assert found[:50] == MOVES.random_text(50, seed=3) and found != MOVES.random_text(200, seed=4)
    assert not set(keys[:100]) & {p.key for p in MOVES.random_text(200, seed=3, exclude=keys[:100])}
    narrow = CountdownDomain(
        ProblemSpec((3,), 1, 12, 1, 99), Rules(answer_format="bare"), "compact_moves", "compact", answers="moves",
        value_high=20,
    )  # fmt: skip
    assert max(p.target for p in narrow.random_text(300, seed=0)) == 20
    narrow = CountdownDomain(
        ProblemSpec((3,), 1, 12, 80, 99), Rules(answer_format="bare"), "compact_moves", "compact", answers="moves"
    )
    assert narrow.repaired(Problem((1, 1, 1), 90), seed=0) is None  # at most 3


@pytest.mark.parametrize("domain", [MOVES, TINY], ids=["moves", "whole"])
def test_a_repaired_problem_has_its_numbers_and_a_target_that_they_reach(domain):
    for seed in range(100):
        asked = Problem((7, 11, 12), 1 + seed % 99)
        made = domain.repaired(asked, seed)
        assert made.numbers == asked.numbers and domain.in_range(made) and not domain.is_held_out(made)
        assert made.target in reachable([7, 11, 12], 99) and is_solvable(made)
    assert len({domain.repaired(Problem((7, 11, 12), 5), seed).target for seed in range(50)}) > 5
