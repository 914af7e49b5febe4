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
)

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
