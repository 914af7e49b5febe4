"""How alike two Countdown problems are: overlap of their numbers and targets, and distance of their features."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .features import FEATURES, feature_matrix
from .problem import Problem, ProblemSpec, problem_of_key
from .rules import Rules

TREE_FEATURES = ("log_solutions", "needs_add", "needs_sub", "needs_mul", "needs_div", "depth_min", "nodes_min")
"""The 7: structure of the solution trees, and usage of operators."""

NUMBER_COLUMNS = 5
"""The numbers take as many columns, ascending and padded with 0; as many as there are, where a problem may have 6."""

NOVELTY_FEATURES = (*TREE_FEATURES, *(f"number_{i + 1}" for i in range(NUMBER_COLUMNS)), "target")
"""The 13 features of the archive distance (Task Difficulty and Diversity, section 4): the 7 of the solution trees, the
normalised numbers and the target. The last 6 tell problems of up to five numbers apart. The trees alone do not: 27.8%
of the paper's candidates were refused as duplicates that they were not (filtering table, section 5)."""

FEATURE_SETS = (7, 13)


def overlap(problems: Sequence[Problem]) -> np.ndarray:
    """(P, P): numbers that two problems share (each as often as both hold it) plus 1 for equal targets, divided by
    1 + the greater of their counts of numbers. 1 for problems with the same key, 0 without anything in common."""
    if not problems:
        return np.zeros((0, 0))
    values = sorted({number for problem in problems for number in problem.numbers})
    column = {number: i for i, number in enumerate(values)}
    count_PV = np.zeros((len(problems), len(values)))
    for row, problem in enumerate(problems):
        for number in problem.numbers:
            count_PV[row, column[number]] += 1
    shared_PP = np.zeros((len(problems), len(problems)))
    for times in range(1, int(count_PV.max()) + 1):  # min(a, b) = the times t at which a >= t and b >= t
        at_least_PV = (count_PV >= times).astype(float)
        shared_PP += at_least_PV @ at_least_PV.T
    target_P = np.array([problem.target for problem in problems], dtype=object)
    same_PP = (target_P[:, None] == target_P[None, :]).astype(float)
    size_P = count_PV.sum(1)
    return (shared_PP + same_PP) / (1 + np.maximum(size_P[:, None], size_P[None, :]))


def similar_share(problems: Sequence[Problem], threshold: float) -> np.ndarray:
    """(P,): the share of the *other* problems whose overlap with this one is at least `threshold`; 0 if it is the
    only one."""
    near_PP = overlap(problems) >= threshold - 1e-12
    np.fill_diagonal(near_PP, False)
    return near_PP.sum(1) / max(len(problems) - 1, 1)


def scaled_features(
    problems: Sequence[Problem],
    spec: ProblemSpec,
    rules: Rules,
    feature_set: int = 13,
    known_PF: np.ndarray | None = None,
) -> np.ndarray:
    """(P, 7 or 13): TREE_FEATURES or NOVELTY_FEATURES, each in [0, 1] for problems in the ranges of `spec`: log
    solutions divided by log(101) (1 beyond 100 solutions), depth and nodes by the most numbers, numbers by their
    greatest, the target less its least by the width of its range. What does not exist (a problem without a solution)
    is 0.

    known_PF: the problems' rows of `feature_matrix`, if they are at hand; otherwise new problems are solved in one
    batch and remembered. Raises DataError for more than 6 numbers.
    """
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


def archive_distance(
    problems: Sequence[Problem], archive: Sequence[str], spec: ProblemSpec, rules: Rules
) -> np.ndarray:
    """(P,): least root mean square difference of the scaled features to a problem of the archive (given by its key),
    in [0, 1] (cut off at 1 beyond the ranges). 1 for an empty archive: everything is new."""
    distance_P = np.ones(len(problems))
    if not archive:
        return distance_P
    archive_AF = scaled_features([problem_of_key(key) for key in archive], spec, rules)
    for row, own_F in enumerate(scaled_features(problems, spec, rules)):
        distance_P[row] = min(np.sqrt(((archive_AF - own_F) ** 2).mean(1).min()), 1.0)
    return distance_P


_TREE_COLUMNS = [list(FEATURES).index(name) for name in TREE_FEATURES]
_KNOWN: dict[tuple[str, Rules], np.ndarray] = {}  # the archive is asked for anew in every round
_MOST_KNOWN = 8192


def _features(problems: Sequence[Problem], rules: Rules) -> np.ndarray:
    """(P, 7) unscaled; problems that were not asked for before go to the solver in one batch."""
    new = {problem.key: problem for problem in problems if (problem.key, rules) not in _KNOWN}
    if len(_KNOWN) + len(new) > _MOST_KNOWN:
        _KNOWN.clear()
        new = {problem.key: problem for problem in problems}
    rows_PF = feature_matrix(new.values(), rules)[:, _TREE_COLUMNS]
    _KNOWN.update(zip([(key, rules) for key in new], rows_PF, strict=True))
    rows = [_KNOWN[problem.key, rules] for problem in problems]
    return np.array(rows, dtype=float).reshape(len(rows), len(TREE_FEATURES))
