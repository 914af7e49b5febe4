"""Structural features of a problem (seed 004, section 3.2): numbers, target, required operators, solution count, and
the shape of the solution trees. They come from the exact solver, never from a model's answers.

A problem's solutions are its inequivalent ones (OEIS A140606), each as a tree of sums and products in which no sum
stands directly in a sum and no product in a product. What is said of solutions does not exist for a problem that has
none: it is NaN there, and `solutions` is 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import numpy as np

from .nodes import Node
from .problem import Problem
from .rules import DEFAULT_RULES, Rules
from .solver import solution_trees
from .values import Array

FEATURES: Mapping[str, str] = MappingProxyType(
    {
        "operands": "how many numbers there are",
        "number_min": "the least number",
        "number_max": "the greatest number",
        "number_mean": "mean of the numbers",
        "number_std": "standard deviation of the numbers (of the population, 0 for equal numbers)",
        "distinct_numbers": "how many different numbers there are",
        "target": "the target",
        "target_ratio": "target divided by the greatest number",
        "target_gap": "distance of the target from the sum of the numbers",
        "solutions": "number of inequivalent solutions",
        "log_solutions": "natural logarithm of 1 + solutions",
        "needs_add": "1 if every solution adds two terms",
        "needs_sub": "1 if every solution subtracts",
        "needs_mul": "1 if every solution multiplies two factors",
        "needs_div": "1 if every solution divides",
        "needs_fraction": "1 if every solution passes through a value that is no integer",
        "depth_min": "least depth of a solution tree: 1 for one sum or product, 2 for products in a sum, and so on",
        "depth_mean": "mean depth of the solution trees",
        "nodes_min": "least number of sums and products in a solution tree",
        "nodes_mean": "mean number of sums and products",
        "parentheses_min": "least number of pairs of parentheses that writing a solution takes",
    }
)
"""Name -> meaning, in the order of the columns of `feature_matrix`. All are float64."""

_OPERATORS = {"needs_add": "+", "needs_sub": "-", "needs_mul": "*", "needs_div": "/"}


def features(problem: Problem, rules: Rules = DEFAULT_RULES) -> dict[str, float]:
    """The features of one problem by name, in the order of FEATURES. Raises DataError beyond 6 numbers."""
    numbers = problem.numbers
    trees = solution_trees(problem, rules)
    found: dict[str, float] = {
        "operands": len(numbers),
        "number_min": min(numbers),
        "number_max": max(numbers),
        "number_mean": sum(numbers) / len(numbers),
        "number_std": float(np.std(numbers)),
        "distinct_numbers": len(set(numbers)),
        "target": problem.target,
        "target_ratio": problem.target / max(numbers),
        "target_gap": abs(problem.target - sum(numbers)),
        "solutions": len(trees),
        "log_solutions": math.log1p(len(trees)),
    }
    if trees:
        found |= _of_solutions(trees)
    return {name: float(found.get(name, math.nan)) for name in FEATURES}


def feature_matrix(problems: Iterable[Problem], rules: Rules = DEFAULT_RULES) -> Array:
    """(problems, features) float64, a column per entry of FEATURES."""
    rows = [list(features(problem, rules).values()) for problem in problems]
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(FEATURES))


def _of_solutions(trees: list[Node]) -> dict[str, float]:
    always = set.intersection(*(operators_of(tree) for tree in trees))
    depths = [_depth(tree) for tree in trees]
    sizes = [_size(tree) for tree in trees]
    return {
        **{name: float(sign in always) for name, sign in _OPERATORS.items()},
        "needs_fraction": float(not any(tree.integral() for tree in trees)),
        "depth_min": min(depths),
        "depth_mean": sum(depths) / len(depths),
        "nodes_min": min(sizes),
        "nodes_mean": sum(sizes) / len(sizes),
        "parentheses_min": min(tree.text().count("(") for tree in trees),
    }


def operators_of(tree: Node) -> set[str]:
    """The operators that writing the tree takes: `+` for a second term with a plus, `-` for one with a minus, `*` for
    a second factor above the line, `/` for one below."""
    used: set[str] = set()
    if tree.kind != "number":
        above, below = ("+", "-") if tree.kind == "sum" else ("*", "/")
        signs = [sign for sign, _ in tree.parts]
        used |= {above} if signs.count(1) > 1 else set()
        used |= {below} if -1 in signs else set()
    return used.union(*(operators_of(part) for _, part in tree.parts))


def _depth(tree: Node) -> int:
    return 1 + max(_depth(part) for _, part in tree.parts) if tree.parts else 0


def _size(tree: Node) -> int:
    return 1 + sum(_size(part) for _, part in tree.parts) if tree.parts else 0
