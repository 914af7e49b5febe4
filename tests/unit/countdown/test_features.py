# Tests: countdown/features.py, countdown/exact/listing.py, countdown/exact/solver.py
"""Solutions as trees, and the features made of them, at problems whose solutions can be listed by hand."""

import math

import numpy as np
import pytest

from countdown_selfplay.countdown import FEATURES, Problem, Rules, all_solutions, feature_matrix, features, verify
from countdown_selfplay.countdown.exact.listing import solution_trees


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
