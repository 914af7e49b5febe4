"""How alike two Countdown problems are: overlap of their numbers and targets, and distance of their features."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .features import FEATURES, feature_matrix
from .problem import Problem, ProblemSpec, problem_of_key
from .rules import Rules

NOVELTY_FEATURES = (
    *("log_solutions", "needs_add", "needs_sub", "needs_mul", "needs_div", "depth_min", "nodes_min"),
    *("operands", "number_min", "number_max", "number_mean", "number_std", "target"),
)
"""The 13 features of the archive distance: 7 of the solution trees, 6 of the numbers and the target. The last 6 alone
tell problems of up to four numbers apart; seed 004 found that the trees alone do not (section 5: 27.8% of the
candidates were refused as duplicates that they were not)."""


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


def scaled_features(problems: Sequence[Problem], spec: ProblemSpec, rules: Rules) -> np.ndarray:
    """(P, 13): NOVELTY_FEATURES, each divided by what spans about [0, 1] in the ranges of `spec`: numbers by the
    width of their range (their deviation by half of it), the target by that of its own, log solutions by log(101),
    counts of trees by the most numbers. What does not exist (a problem without a solution) is 0.

    Raises DataError for more than 6 numbers. New problems are solved in one batch and remembered.
    """
    numbers = float(max(spec.number_high - spec.number_low, 1))
    most = float(max(spec.operands))
    scale = {
        "log_solutions": math.log(101),
        "depth_min": most,
        "nodes_min": most,
        "operands": most,
        "number_min": numbers,
        "number_max": numbers,
        "number_mean": numbers,
        "number_std": numbers / 2,
        "target": float(max(spec.target_high - spec.target_low, 1)),
    }
    found_PF = _features(problems, rules)
    return np.nan_to_num(found_PF) / [scale.get(name, 1.0) for name in NOVELTY_FEATURES]


def archive_distance(
    problems: Sequence[Problem], archive: Sequence[str], spec: ProblemSpec, rules: Rules
) -> np.ndarray:
    """(P,): least root mean square difference of the scaled features to a problem of the archive (given by its key),
    each difference cut off at 1; in [0, 1]. 1 for an empty archive: everything is new."""
    distance_P = np.ones(len(problems))
    if not archive:
        return distance_P
    archive_AF = scaled_features([problem_of_key(key) for key in archive], spec, rules)
    for row, own_F in enumerate(scaled_features(problems, spec, rules)):
        difference_AF = np.minimum(np.abs(archive_AF - own_F), 1.0)
        distance_P[row] = np.sqrt((difference_AF**2).mean(1).min())
    return distance_P


_KNOWN: dict[tuple[str, Rules], np.ndarray] = {}  # the archive is asked for anew in every round
_MOST_KNOWN = 8192


def _features(problems: Sequence[Problem], rules: Rules) -> np.ndarray:
    """(P, 13) unscaled; problems that were not asked for before go to the solver in one batch."""
    new = {problem.key: problem for problem in problems if (problem.key, rules) not in _KNOWN}
    if len(_KNOWN) + len(new) > _MOST_KNOWN:
        _KNOWN.clear()
        new = {problem.key: problem for problem in problems}
    rows_PF = feature_matrix(new.values(), rules)[:, [list(FEATURES).index(name) for name in NOVELTY_FEATURES]]
    _KNOWN.update(zip([(key, rules) for key in new], rows_PF, strict=True))
    rows = [_KNOWN[problem.key, rules] for problem in problems]
    return np.array(rows, dtype=float).reshape(len(rows), len(NOVELTY_FEATURES))
