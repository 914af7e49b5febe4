# Tests: countdown/exact/values.py, countdown/exact/solver.py, countdown/exact/forms.py, countdown/exact/listing.py
"""The solver against the counts of FACTS, searches that share no code with it, and itself."""

import itertools
import random

import numpy as np
import pytest

from countdown_selfplay.countdown import (
    DEFAULT_RULES,
    Problem,
    Reason,
    Rules,
    count_solutions,
    is_solvable,
    is_solvable_batch,
    reachable_counts,
    reachable_targets,
    solvable_arrays,
    solve,
    verify,
)
from countdown_selfplay.countdown.exact import listing, solver
from countdown_selfplay.countdown.exact.forms import flippable, plan

from .oracle import naive_counts, naive_solvable, random_problems, random_tree

INTEGERS = Rules(integers_only=True)
NEED_FRACTIONS = [
    (1, 3, 4, 6), (1, 4, 5, 6), (1, 5, 5, 5), (1, 6, 6, 8), (3, 3, 7, 7), (3, 3, 8, 8), (4, 4, 7, 7), (1, 8, 12, 12),
    (2, 2, 11, 11), (2, 2, 13, 13), (2, 3, 5, 12), (2, 4, 10, 10), (2, 5, 5, 10), (2, 7, 7, 10), (5, 5, 7, 11),
    (5, 7, 7, 11),
]  # fmt: skip


def multisets(numbers, size):
    return list(itertools.combinations_with_replacement(numbers, size))


def check_solution(problem, rules=DEFAULT_RULES):
    """solve's text, judged by the verifier under the same rules."""
    expression = solve(problem, rules)
    assert expression is not None, problem
    verdict = verify(f"<answer>{expression}</answer>", problem, rules)
    assert (verdict.score, verdict.reason) == (1.0, Reason.CORRECT), (problem, expression)


def test_the_six_expressions_over_two_numbers_and_as_many_as_oeis_a140606_says():
    # 2 and 6: 8, -4, 4, 12, 1/3, 3
    assert reachable_targets((2, 6), -100, 100) == {-4: 1, 3: 1, 4: 1, 8: 1, 12: 1}
    assert [count_solutions(Problem((6, 2), t)) for t in (8, -4, 4, 12, 3, 0)] == [1, 1, 1, 1, 1, 0]
    assert solve(Problem((3, 3, 8, 8), 24)) == "8 / (3 - 8 / 3)"
    # twice the largest numerator must stay below 2^53: 2 * 999^5 = 1.99e15, 2 * 406^6 = 8.96e15, 2 * 407^6 = 9.09e15
    assert 2 * 999**5 < 2 * 406**6 < 2**53 < 2 * 407**6
    assert solver.is_exact(5, 999, 9_999) and solver.is_exact(6, 406, 9_999)
    assert not solver.is_exact(6, 407, 9_999)
    signed = [plan(k).count + int(flippable(k).sum()) for k in range(1, 7)]
    assert signed == [1, 6, 68, 1170, 27142, 793002]
    assert [sum(naive_counts(n).values()) for n in ((2,), (2, 9), (2, 9, 31), (2, 9, 31, 87))] == [1, 6, 68, 1170]


def test_counts_of_the_24_game_of_pairs_up_to_12_and_of_random_conjectures():
    problems = [Problem(numbers, 24) for numbers in multisets(range(1, 14), 4)]
    rational = is_solvable_batch(problems)
    integral = is_solvable_batch(problems, INTEGERS)
    assert (len(problems), sum(rational), sum(integral)) == (1820, 1362, 1346)
    need = [p.numbers for p, r, i in zip(problems, rational, integral, strict=True) if r and not i]
    assert sorted(need) == sorted(NEED_FRACTIONS)
    numbers = np.array(multisets(range(1, 13), 4))
    targets = np.arange(10, 101)
    pairs = np.repeat(numbers, len(targets), axis=0), np.tile(targets, len(numbers))
    assert len(pairs[1]) == 1365 * 91
    assert solvable_arrays(*pairs).sum() == 58_944
    assert solvable_arrays(*pairs, rules=INTEGERS).sum() == 56_485
    # 3.6% and 13.5%; standard errors 0.09 and 0.24 points at these sample sizes
    generator = np.random.default_rng(0)
    for k, n, share, error in ((3, 40_000, 0.036, 0.004), (4, 20_000, 0.135, 0.010)):
        numbers, targets = generator.integers(1, 100, (n, k)), generator.integers(10, 101, n)
        assert abs(solvable_arrays(numbers, targets).mean() - share) < error


@pytest.mark.slow
@pytest.mark.parametrize(("rules", "pairs"), [(Rules(), 58_944), (INTEGERS, 56_485)])
def test_reachable_targets_of_all_four_numbers_up_to_12(rules, pairs):
    assert sum(len(reachable_targets(n, 10, 100, rules)) for n in multisets(range(1, 13), 4)) == pairs


@pytest.mark.parametrize("integers_only", [False, True])
def test_it_decides_as_a_naive_search_does(integers_only):
    generator = random.Random(1)
    rules = Rules(integers_only=integers_only)
    problems = random_problems(generator, 150, 2, 9, -5, 30) + random_problems(generator, 150, 3, 12, -5, 60)
    problems += random_problems(generator, 30, 4, 9) + random_problems(generator, 30, 4, 99)
    batch = is_solvable_batch([p for p in problems if p.target >= 0], rules)
    answers = {p.key: naive_solvable(p.numbers, p.target, integers_only) for p in problems}
    assert batch == [answers[p.key] for p in problems if p.target >= 0]
    assert is_solvable_batch(problems, rules) == [answers[p.key] for p in problems]
    for p in problems:
        if answers[p.key]:
            check_solution(p, rules)
        else:
            assert solve(p, rules) is None
    assert 50 < sum(answers.values()) < len(answers)
    assert is_solvable_batch([Problem((1,) * 5, n) for n in (6, 7)]) == [True, False]  # (1 + 1 + 1) * (1 + 1) at most


@pytest.mark.slow
def test_it_decides_as_a_naive_search_does_with_five_numbers():
    generator = random.Random(2)
    problems = random_problems(generator, 12, 5, 9, 100, 400) + random_problems(generator, 12, 5, 99, 500, 999)
    assert is_solvable_batch(problems) == [naive_solvable(p.numbers, p.target) for p in problems]


@pytest.mark.parametrize("integers_only", [False, True])
@pytest.mark.parametrize(
    "numbers",
    [(7,), (5, 5), (2, 6), (1, 1, 1), (3, 3, 8), (2, 5, 9), (1, 2, 4), (4, 4, 4, 4), (3, 3, 8, 8), (1, 1, 2, 9),
     (2, 2, 2, 7), (6, 6, 6, 2), (1, 2, 3, 4), (10, 24, 37, 99),
     (10**8 + 7, 10**8 + 7, 6 * 10**8, 3),  # far beyond what a float holds exactly
     *(pytest.param(five, marks=pytest.mark.slow) for five in ((1, 3, 7, 10, 25), (2, 2, 5, 5, 9)))],
)  # fmt: skip
def test_every_count_is_that_of_an_independent_enumeration(numbers, integers_only):
    counts, most = naive_counts(numbers, integers_only), 10**9 if max(numbers) > 10**6 else 10_000
    expected = {int(v): n for v, n in sorted(counts.items()) if v.denominator == 1 and abs(v) <= most}
    assert reachable_targets(numbers, -most, most, Rules(integers_only=integers_only)) == expected


def constructed(generator, k, high, count):
    """Problems with a solution by construction: random trees whose value is an integer up to 9,999 (or `high`)."""
    found = []
    while len(found) < count:
        numbers = tuple(generator.randint(1, high) for _ in range(k))
        tree = random_tree(numbers, generator)
        if tree is not None and tree[1].denominator == 1 and abs(tree[1]) <= max(9_999, high):
            found.append((Problem(numbers, int(tree[1])), tree[0]))
    return found


@pytest.mark.parametrize(
    ("k", "high", "count"),
    [(1, 999, 5), (2, 999, 30), (3, 999, 30), (4, 999, 30), (5, 99, 10), (5, 999, 5), (6, 99, 3), (6, 999, 2),
     (3, 10**9, 10), (4, 10**6, 4)],
)  # fmt: skip
def test_what_has_a_solution_is_solved(k, high, count):
    """Small numbers are compared as exact floats, six large ones with a tolerance and a confirmation, the largest in
    Python's integers."""
    for problem, tree in constructed(random.Random(3 * k + high), k, high, count):
        assert verify(f"<answer>{tree}</answer>", problem).correct
        check_solution(problem)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_confirmed_way_and_the_exact_way_agree(k, monkeypatch):
    """The confirmed way is forced where the exact one is proved to hold."""
    problems = random_problems(random.Random(k), 40, k, 60)
    exact = [(is_solvable(p), count_solutions(p)) for p in problems]
    for module in (listing, solver):
        monkeypatch.setattr(module, "is_exact", lambda *arguments: False)
    solver._solve_sorted.cache_clear()
    listing._reachable_sorted.cache_clear()
    try:
        assert [(is_solvable(p), count_solutions(p)) for p in problems] == exact
        assert is_solvable_batch(problems) == [solvable for solvable, _ in exact]
    finally:
        solver._solve_sorted.cache_clear()
        listing._reachable_sorted.cache_clear()
    assert {True, False} == {solvable for solvable, _ in exact}


def test_with_numbers_left_out_the_solutions_of_all_sub_multisets_are_counted():
    some = Rules(use_all=False)
    for numbers in ((2, 6), (3, 3, 8), (1, 2, 4)):
        expected: dict[int, int] = {}
        subsets = {c for size in range(1, len(numbers) + 1) for c in itertools.combinations(numbers, size)}
        for chosen in subsets:
            for target, count in reachable_targets(chosen, -100, 100).items():
                expected[target] = expected.get(target, 0) + count
        assert reachable_targets(numbers, -100, 100, some) == dict(sorted(expected.items()))
        for target in range(-10, 30):
            problem = Problem(numbers, target)
            assert is_solvable(problem, some) == is_solvable_batch([problem], some)[0] == (target in expected)
            if target in expected:
                check_solution(problem, some)


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
