# Tests: countdown/exact/solver.py, countdown/problem.py, countdown/rules.py
"""Many problems at once: the answers are those of one at a time, in any order, mix and number of threads."""

import random

import numpy as np
import pytest

from countdown_selfplay.countdown import (
    Problem,
    Rules,
    is_solvable,
    is_solvable_batch,
    reachable_counts,
    reachable_targets,
    solvable_arrays,
)
from countdown_selfplay.errors import DataError

INTEGERS = Rules(integers_only=True)


def random_problems(generator, count, k, high, low=-20, top=120):
    return [
        Problem(tuple(generator.randint(1, high) for _ in range(k)), generator.randint(low, top)) for _ in range(count)
    ]


def test_a_batch_gives_the_same_answers_in_any_mix_order_and_number_of_threads():
    generator = random.Random(9)
    problems = [p for k in (1, 2, 3, 4, 5) for p in random_problems(generator, 400 // k, k, 50)]
    generator.shuffle(problems)
    expected = [is_solvable(p) for p in problems]
    assert is_solvable_batch(problems) == expected
    assert is_solvable_batch(problems, workers=1) == expected
    assert is_solvable_batch(problems[::-1], workers=3) == expected[::-1]
    assert is_solvable_batch([]) == []


@pytest.mark.parametrize("rules", [Rules(), INTEGERS, Rules(use_all=False)])
@pytest.mark.parametrize(("k", "largest"), [(2, 10**9), (3, 10**9), (4, 10**6), (5, 2000), (6, 999)])
def test_a_batch_beyond_what_floats_hold_gives_the_answers_of_one_at_a_time(rules, k, largest):
    """Candidates of the arrays are confirmed exactly; half of the targets are built from the numbers."""
    generator = random.Random(k)
    problems = []
    for i in range(12 if k < 5 else 4):
        numbers = tuple(generator.randint(1, largest) for _ in range(k))
        target = generator.randint(-largest, largest)
        if i % 2:
            target = sum(number * generator.choice((1, -1)) for number in numbers)
        problems.append(Problem(numbers, max(-(10**9), min(10**9, target))))
    found = is_solvable_batch(problems, rules, workers=2)
    assert found == [is_solvable(problem, rules) for problem in problems]
    assert {True, False} <= set(found)


@pytest.mark.parametrize("rules", [Rules(), INTEGERS, Rules(use_all=False)])
def test_counts_in_a_batch_are_those_of_one_set_at_a_time(rules):
    generator = np.random.default_rng(4)
    for k, rows in ((1, 20), (2, 60), (3, 200), (4, 40)):
        numbers = generator.integers(1, 9, (rows, k))  # repeats of every pattern
        counts = reachable_counts(numbers, -5, 60, rules)
        assert counts.shape == (rows, 66)
        assert np.array_equal(counts, reachable_counts(numbers, -5, 60, rules, workers=3))
        for row, found in zip(numbers.tolist(), counts, strict=True):
            expected = reachable_targets(row, -5, 60, rules)
            assert {t: int(n) for t, n in enumerate(found, start=-5) if n} == expected


def test_arrays_are_checked_like_problems():
    for numbers, targets, message in [
        (np.ones((2, 7), int), np.ones(2, int), "1 to 6 numbers, got 7"),
        (np.ones((2, 3)), np.ones(2, int), "integers is needed, got float64"),
        (np.zeros((2, 3), int), np.ones(2, int), "must be positive"),
        (np.ones(3, int), np.ones(2, int), "array of 2 dimensions"),
        (np.full((2, 3), 10**10), np.ones(2, int), "within 1,000,000,000"),
    ]:
        with pytest.raises(DataError, match=message):
            solvable_arrays(numbers, targets)
    with pytest.raises(DataError, match="2 rows and 3 targets"):
        solvable_arrays(np.ones((2, 3), int), np.ones(3, int))
    assert solvable_arrays(np.zeros((0, 3), int), np.zeros(0, int)).shape == (0,)
