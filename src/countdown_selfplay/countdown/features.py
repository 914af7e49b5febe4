"""Structural features of a problem (seed 004, section 3.3): numbers, target, required operators, solution count, and
the shape of the solution trees. They come from the exact solver, never from a model's answers.

A problem's solutions are its inequivalent ones (OEIS A140606), each as a tree of sums and products in which no sum
stands directly in a sum and no product in a product. What is said of solutions does not exist for a problem that has
none: it is NaN there, and `solutions` is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import combinations
from types import MappingProxyType

import numpy as np

from .exact.batch import first_choice, solution_forms, solvable_arrays
from .exact.nodes import Node
from .exact.shapes import ADD_BIT, DIV_BIT, MUL_BIT, SUB_BIT, shapes
from .exact.solver import checked_operands
from .exact.values import Array
from .problem import Problem
from .rules import DEFAULT_RULES, Rules

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
        "needs_fraction": "1 if every solution passes through a value that is not an integer",
        "depth_min": "least depth of a solution tree: 1 for one sum or product, 2 for products in a sum, and so on",
        "depth_mean": "mean depth of the solution trees",
        "nodes_min": "least number of sums and products in a solution tree",
        "nodes_mean": "mean number of sums and products",
        "parentheses_min": "least number of pairs of parentheses that writing a solution takes",
    }
)
"""Name -> meaning, in the order of the columns of `feature_matrix`. All are float64."""

_BITS = {"needs_add": ADD_BIT, "needs_sub": SUB_BIT, "needs_mul": MUL_BIT, "needs_div": DIV_BIT}
_LEAST = ("depth", "nodes", "parentheses")


def features(problem: Problem, rules: Rules = DEFAULT_RULES) -> dict[str, float]:
    """The features of one problem by name, in the order of FEATURES. Raises DataError beyond 6 numbers."""
    return dict(zip(FEATURES, feature_matrix([problem], rules, workers=1)[0].tolist(), strict=True))


def feature_matrix(problems: Iterable[Problem], rules: Rules = DEFAULT_RULES, workers: int | None = None) -> Array:
    """(problems, features) float64, a column per entry of FEATURES: `features` of many problems at once.

    Problems with equally many numbers share the solver's arrays. workers: threads; None: one per core this process may
    use; the matrix is the same for every number of them. Raises DataError beyond 6 numbers.
    """
    listed = list(problems)
    by_size: dict[int, list[int]] = {}
    for i, problem in enumerate(listed):
        by_size.setdefault(len(checked_operands(problem.numbers)), []).append(i)
    matrix = np.full((len(listed), len(FEATURES)), np.nan)
    for members in by_size.values():
        numbers_PK = np.sort(np.array([listed[i].numbers for i in members], dtype=np.int64), axis=1)
        target_P = np.array([listed[i].target for i in members], dtype=np.int64)
        columns = _of_numbers(numbers_PK, target_P) | _of_solutions(numbers_PK, target_P, rules, workers)
        matrix[members] = np.stack([columns[name] for name in FEATURES], axis=1)
    return matrix


def _of_numbers(ordered_PK: Array, target_P: Array) -> dict[str, Array]:
    return {
        "operands": np.full(len(target_P), ordered_PK.shape[1]),
        "number_min": ordered_PK[:, 0],
        "number_max": ordered_PK[:, -1],
        "number_mean": ordered_PK.mean(axis=1),
        "number_std": ordered_PK.std(axis=1),
        "distinct_numbers": 1 + (np.diff(ordered_PK, axis=1) > 0).sum(axis=1),
        "target": target_P,
        "target_ratio": target_P / ordered_PK[:, -1],
        "target_gap": np.abs(target_P - ordered_PK.sum(axis=1)),
    }


def _of_solutions(ordered_PK: Array, target_P: Array, rules: Rules, workers: int | None) -> dict[str, Array]:
    problems, k = ordered_PK.shape
    sums = {name: np.zeros(problems) for name in ("solutions", *_BITS, "depth", "nodes")}
    least = {name: np.full(problems, np.inf) for name in _LEAST}
    for size in [k] if rules.use_all else range(1, k + 1):
        table = shapes(size)
        for chosen in combinations(range(k), size):
            taken = np.flatnonzero(first_choice(ordered_PK, chosen))
            found = solution_forms(ordered_PK[taken][:, chosen], target_P[taken], rules, workers)
            problem = taken[found.problems]
            operators = np.where(found.negated, table.negative_operators[found.forms], table.operators[found.forms])
            weights: dict[str, Array | None] = {name: operators & bit > 0 for name, bit in _BITS.items()}
            weights |= {"solutions": None, "depth": table.depth[found.forms], "nodes": table.nodes[found.forms]}
            for name, weight in weights.items():
                sums[name] += np.bincount(problem, weight, minlength=problems)
            for name in _LEAST:
                np.minimum.at(least[name], problem, getattr(table, name)[found.forms].astype(np.float64))
    solutions = sums["solutions"]
    solved = solutions > 0
    integral = np.zeros(problems, dtype=bool)
    in_integers = replace(rules, integers_only=True)
    integral[solved] = solvable_arrays(ordered_PK[solved], target_P[solved], in_integers, workers)
    with np.errstate(invalid="ignore"):
        columns = {f"{name}_mean": sums[name] / solutions for name in ("depth", "nodes")}
    columns |= {name: sums[name] == solutions for name in _BITS} | {"needs_fraction": ~integral}
    columns |= {f"{name}_min": least[name] for name in _LEAST}
    columns = {name: np.where(solved, column, np.nan) for name, column in columns.items()}
    return columns | {"solutions": solutions, "log_solutions": np.log1p(solutions)}


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
