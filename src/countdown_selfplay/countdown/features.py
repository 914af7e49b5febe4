"""Structural features of a problem (Task Difficulty and Diversity, section 3.3) from the exact solver: numbers,
target, required operators, solution count, and the shape of the solution trees.

Inequivalent solutions (OEIS A140606) are counted, each as a tree in which no sum is a direct part of a sum and no
product of a product. Thus operators are defined up to rewriting: 24 / (2 / 3) is the product 24 x 3 / 2, which
multiplies, and 20 - (9 - 2) the sum 20 + 2 - 9, which adds. For a problem without a solution, `solutions` is 0 and
the features of solution trees are NaN."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .exact.forms import ADD_BIT, DIV_BIT, MUL_BIT, SUB_BIT, Array, shapes
from .exact.listing import Bound, choices, solution_forms
from .exact.solver import by_operands, solvable_arrays
from .problem import DEFAULT_RULES, Problem, ProblemSpec, Rules, problem_of_key

FEATURES: Mapping[str, str] = {
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
"""Name of a feature -> its meaning, in the order of the columns of `feature_matrix`."""

_BITS = {"needs_add": ADD_BIT, "needs_sub": SUB_BIT, "needs_mul": MUL_BIT, "needs_div": DIV_BIT}
_LEAST = ("depth", "nodes", "parentheses")


class Found(NamedTuple):
    """Solutions as parallel arrays: problem (row index), value and operator bits (exact/forms.py) of each solution,
    and depth, number of nodes and pairs of parentheses of its tree."""

    problems: Array
    targets: Array
    operators: Array
    depth: Array
    nodes: Array
    parentheses: Array


def features(problem: Problem, rules: Rules = DEFAULT_RULES) -> dict[str, float]:
    """Return the features of one problem by name, in the order of FEATURES. Raises DataError beyond 6 numbers."""
    return dict(zip(FEATURES, feature_matrix([problem], rules, workers=1)[0].tolist(), strict=True))


def feature_matrix(problems: Iterable[Problem], rules: Rules = DEFAULT_RULES, workers: int | None = None) -> Array:
    """Return the `features` of many problems, (problems, features) float64, a column per entry of FEATURES. workers:
    threads; None: one per available core; the result does not depend on it. Raises DataError beyond 6 numbers."""
    listed = list(problems)
    matrix = np.full((len(listed), len(FEATURES)), np.nan)
    for members, numbers_PK, target_P in by_operands(listed):
        numbers_PK.sort(axis=1)
        found = solutions_between(numbers_PK, target_P, target_P, rules, workers)
        matrix[members] = feature_rows(numbers_PK, target_P, found, rules, workers)
    return matrix


def feature_rows(ordered_PK: Array, target_P: Array, found: Found, rules: Rules, workers: int | None = None) -> Array:
    """Return the rows of `feature_matrix`, given all solutions of the problems."""
    columns = number_columns(ordered_PK, target_P) | solution_columns(ordered_PK, target_P, found, rules, workers)
    return np.stack([columns[name] for name in FEATURES], axis=1).astype(np.float64)


def number_columns(ordered_PK: Array, target_P: Array) -> dict[str, Array]:
    """Return the features that need no solution: name -> (problems,)."""
    return {
        "operands": np.full(len(target_P), ordered_PK.shape[1]), "number_min": ordered_PK[:, 0],
        "number_max": ordered_PK[:, -1], "number_mean": ordered_PK.mean(axis=1), "number_std": ordered_PK.std(axis=1),
        "distinct_numbers": 1 + (np.diff(ordered_PK, axis=1) > 0).sum(axis=1), "target": target_P,
        "target_ratio": target_P / ordered_PK[:, -1], "target_gap": np.abs(target_P - ordered_PK.sum(axis=1)),
    }  # fmt: skip


def solutions_between(ordered_PK: Array, low: Bound, high: Bound, rules: Rules, workers: int | None = None) -> Found:
    """Return every distinct solution of every target from `low` to `high`: one bound for all rows, or (problems,)."""
    parts = []
    for taken, chosen_PK in choices(ordered_PK, rules):
        least_value, most_value = (bound if isinstance(bound, int) else bound[taken] for bound in (low, high))
        hits = solution_forms(chosen_PK, least_value, most_value, rules, workers)
        forms = shapes(chosen_PK.shape[1])[hits.forms]
        operators = np.where(hits.negated, forms["negative_operators"], forms["operators"])
        least = [forms[name] for name in _LEAST]
        parts.append(Found(taken[hits.problems], hits.targets, operators, *least))
    return Found(*map(np.concatenate, zip(*parts, strict=True)))


def solution_columns(
    ordered_PK: Array, target_P: Array, found: Found, rules: Rules, workers: int | None
) -> dict[str, Array]:
    """Return the features of solutions, name -> (problems,)."""
    problems = len(ordered_PK)
    weights = {name: found.operators & bit > 0 for name, bit in _BITS.items()}
    weights |= {"depth": found.depth, "nodes": found.nodes}
    sums = {name: np.bincount(found.problems, weight, minlength=problems) for name, weight in weights.items()}
    least = {name: np.full(problems, np.inf) for name in _LEAST}
    for name in _LEAST:
        np.minimum.at(least[name], found.problems, getattr(found, name).astype(np.float64))
    solutions = np.bincount(found.problems, minlength=problems).astype(np.float64)
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


TREE_FEATURES = ("log_solutions", "needs_add", "needs_sub", "needs_mul", "needs_div", "depth_min", "nodes_min")
"""Seven features of the solutions: their number, required operators, and least depth and size of a tree."""

NUMBER_COLUMNS = 5
"""Number of columns for a problem's numbers, ascending and padded with 0; six-operand ranges add a column."""

NOVELTY_FEATURES = (*TREE_FEATURES, *(f"number_{i + 1}" for i in range(NUMBER_COLUMNS)), "target")
"""The 13 features of the archive distance (Task Difficulty and Diversity, section 4): the 7 of the solution trees, the
normalised numbers and the target. The last 6 distinguish problems of up to five numbers. Tree features alone do not:
with them 27.8% of the authors' candidates were wrongly refused as duplicates (filtering table, section 5)."""


def overlap(problems: Sequence[Problem]) -> Array:
    """Return the pairwise overlap of problems, (P, P): common numbers (with multiplicity) plus 1 for equal targets,
    divided by 1 + the larger count of numbers. 1 for problems with the same key, 0 without anything in common."""
    if not problems:
        return np.zeros((0, 0))
    values = sorted({number for problem in problems for number in problem.numbers})
    count_PV = np.array([[problem.numbers.count(value) for value in values] for problem in problems])
    shared_PP = np.zeros((len(problems), len(problems)))
    for times in range(1, int(count_PV.max()) + 1):  # min(a, b) = the times t at which a >= t and b >= t
        at_least_PV = (count_PV >= times).astype(float)
        shared_PP += at_least_PV @ at_least_PV.T
    target_P = np.array([problem.target for problem in problems], dtype=object)
    same_PP = (target_P[:, None] == target_P[None, :]).astype(float)
    size_P = count_PV.sum(1)
    return (shared_PP + same_PP) / (1 + np.maximum(size_P[:, None], size_P[None, :]))


def similar_share(problems: Sequence[Problem], threshold: float) -> Array:
    """Return the share of the *other* problems with an overlap of at least `threshold`, (P,); 0 for a lone problem."""
    near_PP = overlap(problems) >= threshold - 1e-12
    np.fill_diagonal(near_PP, False)
    return near_PP.sum(1) / max(len(problems) - 1, 1)


def scaled_features(
    problems: Sequence[Problem], spec: ProblemSpec, rules: Rules, feature_set: int = 13, known_PF: Array | None = None
) -> Array:
    """Return TREE_FEATURES (`feature_set` 7) or NOVELTY_FEATURES (13), in [0, 1] for problems in the ranges of `spec`:
    log solutions divided by log(101) (1 beyond 100 solutions), depth and nodes by the largest operand count, numbers
    by the largest number, the target shifted and divided by its range; 0 for features of absent solutions. known_PF:
    the problems' rows of `feature_matrix`, if known; otherwise new problems are solved in one batch and cached.
    Raises DataError for more than 6 numbers."""
    most = max(spec.operands)
    tree_PF = _features(problems, rules) if known_PF is None else known_PF[:, _TREE_COLUMNS]
    scale = {"log_solutions": math.log(101), "depth_min": float(most), "nodes_min": float(most)}
    scaled_PF = np.minimum(np.nan_to_num(tree_PF) / [scale.get(name, 1.0) for name in TREE_FEATURES], 1.0)
    if feature_set != 7:
        number_PF = np.zeros((len(problems), max(NUMBER_COLUMNS, most) + 1))
        for row, problem in enumerate(problems):
            number_PF[row, : len(problem.numbers)] = sorted(problem.numbers)
            number_PF[row, -1] = problem.target
        number_PF[:, :-1] /= spec.number_high
        number_PF[:, -1] = (number_PF[:, -1] - spec.target_low) / max(spec.target_high - spec.target_low, 1)
        scaled_PF = np.concatenate([scaled_PF, number_PF], axis=1)
    return scaled_PF


def archive_distance(problems: Sequence[Problem], archive: Sequence[str], spec: ProblemSpec, rules: Rules) -> Array:
    """Return the distance of each problem to the nearest in `archive` (keys), (P,): the root mean square difference of
    their scaled features, at most 1. It is 1 for an empty archive."""
    distance_P = np.ones(len(problems))
    if not archive:
        return distance_P
    archive_AF = scaled_features([problem_of_key(key) for key in archive], spec, rules)
    for row, own_F in enumerate(scaled_features(problems, spec, rules)):
        distance_P[row] = min(np.sqrt(((archive_AF - own_F) ** 2).mean(1).min()), 1.0)
    return distance_P


_TREE_COLUMNS = [list(FEATURES).index(name) for name in TREE_FEATURES]
_KNOWN: dict[tuple[str, Rules], Array] = {}  # rewards compute the archive's distances in every round
_MOST_KNOWN = 8192


def _features(problems: Sequence[Problem], rules: Rules) -> Array:
    """Return the unscaled TREE_FEATURES, (P, 7); problems that are not cached are solved in one batch."""
    new = {problem.key: problem for problem in problems if (problem.key, rules) not in _KNOWN}
    if len(_KNOWN) + len(new) > _MOST_KNOWN:
        _KNOWN.clear()
        new = {problem.key: problem for problem in problems}
    rows_PF = feature_matrix(new.values(), rules)[:, _TREE_COLUMNS]
    _KNOWN.update(zip([(key, rules) for key in new], rows_PF, strict=True))
    rows = [_KNOWN[problem.key, rules] for problem in problems]
    return np.array(rows, dtype=float).reshape(len(rows), len(TREE_FEATURES))
