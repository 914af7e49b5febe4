# Tests: countdown/features.py, countdown/mutations.py, countdown/exact/listing.py, countdown/exact/solver.py
"""Solutions as trees, the features made of them, and edits that ask for a type of solution (seed 004, section 3)."""

import math
from itertools import product

import numpy as np
import pytest

from countdown_selfplay.countdown import (
    FEATURES,
    Problem,
    ProblemSpec,
    Rules,
    all_solutions,
    feature_matrix,
    features,
    generate_problems,
    verify,
)
from countdown_selfplay.countdown.exact.listing import solution_trees
from countdown_selfplay.countdown.mutations import EXPRESSION_ACTIONS, NUMBER_ACTIONS, CountdownMutations, is_trivial

TINY = ProblemSpec((3,), 1, 12, 1, 99)
RULES = Rules()


def features_of_trees(problem, rules):
    """The features that speak of solutions, from every solution as a tree."""
    trees = solution_trees(problem, rules)
    found = {"solutions": float(len(trees)), "log_solutions": math.log1p(len(trees))}
    operators = {"needs_add": "+", "needs_sub": "-", "needs_mul": "*", "needs_div": "/"}
    if not trees:
        shape = ("depth_min", "depth_mean", "nodes_min", "nodes_mean", "parentheses_min", "needs_fraction")
        return found | dict.fromkeys((*operators, *shape), math.nan)
    depths, sizes = [_depth(tree) for tree in trees], [_size(tree) for tree in trees]
    return found | {
        **{name: float(all(sign in operators_of(tree) for tree in trees)) for name, sign in operators.items()},
        "needs_fraction": float(not any(tree.integral() for tree in trees)), "depth_min": min(depths),
        "depth_mean": sum(depths) / len(depths), "nodes_min": min(sizes), "nodes_mean": sum(sizes) / len(sizes),
        "parentheses_min": min(tree.text().count("(") for tree in trees),
    }  # fmt: skip


def operators_of(tree):
    """`+` for a second positive term, `-` for a negative one, `*` and `/` for factors alike."""
    signs = [sign for sign, _ in tree.parts]
    above, below = "+-" if tree.kind == "sum" else "*/"
    used = ({above} if signs.count(1) > 1 else set()) | ({below} if -1 in signs else set())
    return used.union(*(operators_of(part) for _, part in tree.parts))


def _depth(tree):
    return 1 + max(_depth(part) for _, part in tree.parts) if tree.parts else 0


def _size(tree):
    return 1 + sum(_size(part) for _, part in tree.parts) if tree.parts else 0


def test_operators_hold_up_to_rewriting_and_features_of_six_large_numbers_are_exact():
    """24 / (2 / 3) = 24 x 3 / 2 and 20 - (9 - 2) = 20 + 2 - 9: each the problem's one solution, written two ways."""
    for problem, written, needed in (
        (Problem((2, 3, 24), 36), "24 / (2 / 3)", {"needs_mul", "needs_div"}),
        (Problem((20, 9, 2), 13), "20 - (9 - 2)", {"needs_add", "needs_sub"}),
    ):
        found = features(problem)
        assert found["solutions"] == 1 and verify(f"<answer>{written}</answer>", problem).correct
        assert {name for name in found if name.startswith("needs_") and found[name]} == needed
    # 999^6 is beyond what a float holds: what arrays find is confirmed. 999 - 998 + 997 - 996 + 995 - 994 = 3
    problem = Problem((999, 998, 997, 996, 995, 994), 3)
    found = features(problem)
    expected = features_of_trees(problem, Rules())
    assert expected["solutions"] > 0
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_solutions_and_features_that_can_be_listed_by_hand():
    assert all_solutions(Problem((3, 3, 8, 8), 24)) == ["8 / (3 - 8 / 3)"]
    assert all_solutions(Problem((3, 3, 8), 8)) == ["3 * 8 / 3", "3 + 8 - 3"]
    assert all_solutions(Problem((4, 6), -2)) == ["4 - 6"]
    assert all_solutions(Problem((1, 2, 3, 4), 100)) == []
    # 4 / 2 = 2, 4 - 2 = 2: two ways
    assert all_solutions(Problem((4, 2), 2)) == ["4 - 2", "4 / 2"]
    found = features(Problem((3, 3, 8, 8), 24))
    # numbers 3, 3, 8, 8: mean 5.5, deviations 2.5; sum 22. The only solution 8 / (3 - 8 / 3) is a product with a sum
    # with a product: depth 3, three nodes, one pair of parentheses, 8 / 3 is not an integer.
    assert found == {
        "operands": 4, "number_min": 3, "number_max": 8, "number_mean": 5.5, "number_std": 2.5, "distinct_numbers": 2,
        "target": 24, "target_ratio": 3, "target_gap": 2, "solutions": 1, "log_solutions": math.log(2),
        "needs_add": 0, "needs_sub": 1, "needs_mul": 0, "needs_div": 1, "needs_fraction": 1,
        "depth_min": 3, "depth_mean": 3, "nodes_min": 3, "nodes_mean": 3, "parentheses_min": 1,
    }  # fmt: skip
    assert list(found) == list(FEATURES)


@pytest.mark.parametrize("rules", [Rules(), Rules(integers_only=True), Rules(use_all=False)])
def test_features_are_those_of_the_solution_trees_one_by_one(rules):
    # Independent way: every solution as a tree, walked recursively. Small numbers repeat, and have many solutions.
    generator = np.random.default_rng(8)
    problems = [
        Problem(tuple(generator.integers(1, 13, k).tolist()), int(generator.integers(-10, 40)))
        for k, count in ((1, 10), (2, 30), (3, 60), (4, 30), (5, 3))
        for _ in range(count)
    ]
    matrix = feature_matrix(problems, rules)
    solved = 0
    for problem, row in zip(problems, matrix, strict=True):
        expected = features_of_trees(problem, rules)
        found = dict(zip(FEATURES, row.tolist(), strict=True))
        assert {name: found[name] for name in expected} == pytest.approx(expected, nan_ok=True), problem
        solved += found["solutions"] > 0
    assert solved > 20


def mutate(seeds, number_actions, expression_actions, spec, rules, seed):
    return CountdownMutations(spec, rules).mutate(seeds, number_actions, expression_actions, seed)


def test_every_candidate_asks_for_the_expression_it_was_made_for_with_the_features_of_the_matrix():
    """Judged by the texts of all solutions, not by the arrays that the candidates were chosen from."""
    seeds = generate_problems(160, TINY, seed=3)
    pairs = list(product(NUMBER_ACTIONS, EXPRESSION_ACTIONS)) * 10
    numbers, kinds = zip(*pairs, strict=True)
    found = mutate(seeds, numbers, kinds, TINY, RULES, seed=1)
    seen = dict.fromkeys(EXPRESSION_ACTIONS, 0)
    for problem, reason, kind in zip(found.problems, found.reasons, kinds, strict=True):
        if reason != "ok":
            continue
        seen[kind] += 1
        texts = all_solutions(problem, RULES)
        assert texts and TINY.admits(problem)
        if kind == "add_sub":
            assert any("*" not in text and "/" not in text for text in texts)
        elif kind == "multiply":
            assert all("*" in text for text in texts)
        elif kind == "divide":
            assert all("/" in text for text in texts)
        else:
            assert all(any(op in text for op in "+-") and any(op in text for op in "*/") for text in texts)
    assert min(seen.values()) > 10
    for spec in (TINY, ProblemSpec((4,))):
        seeds = generate_problems(60, spec, seed=3)
        found = mutate(seeds, ["resample"] * 60, ["multi_step"] * 60, spec, RULES, seed=1)
        good = [i for i, reason in enumerate(found.reasons) if reason == "ok"]
        assert len(good) > 20
        assert np.array_equal(found.features[good], feature_matrix([found.problems[i] for i in good]))
        assert np.isnan(found.features[[i for i in range(60) if i not in good]]).all()
    found = mutate([Problem((1, 2, 3, 4), 10)], ["small"], ["multiply"], TINY, RULES, seed=0)
    assert found.reasons == ["out_of_range"]


def test_reasons_are_the_first_check_that_failed_and_trivial_is_a_plain_sum_or_product():
    at_the_edge = [Problem((1, 1, 1), 3)] * 300
    found = mutate(at_the_edge, ["small"] * 300, ["divide"] * 300, TINY, RULES, seed=0)
    assert {"out_of_range", "ok"} <= set(found.reasons)
    assert all(p is None for p, why in zip(found.problems, found.reasons, strict=True) if why == "out_of_range")
    # three ones reach 1, 2 and 3, and never need a division: 1 = 1 * 1 * 1, 2 = 1 + 1 * 1, 3 = 1 + 1 + 1
    ones = ProblemSpec((3,), 1, 1, 1, 9)
    found = mutate(at_the_edge[:1], ["resample"], ["divide"], ones, RULES, seed=0)
    assert found.reasons == ["unsolvable"]
    found = mutate(at_the_edge[:9], ["resample"] * 9, ["add_sub"] * 9, ProblemSpec((3,), 1, 1, 3, 3), RULES, seed=0)
    assert set(found.reasons) == {"trivial"}
    numbers, targets = np.array([[2, 3, 4]] * 4), np.array([9, 24, 10, 4])
    assert is_trivial(numbers, targets, RULES).tolist() == [True, True, False, False]
    assert is_trivial(numbers, targets, Rules(use_all=False)).tolist() == [True, True, False, True]
