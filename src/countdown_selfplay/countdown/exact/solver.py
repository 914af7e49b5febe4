"""The exact solver: is there a solution, which one, how many, and which targets can be reached.

One problem at a time, with the answers cached; batch.py takes many at once. meeting.py decides and counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np

from ...errors import DataError
from ..problem import Problem
from ..rules import DEFAULT_RULES, Rules
from .meeting import Hits, candidates, hits
from .nodes import Node, form
from .repeats import symbols_of
from .values import Values

MAX_OPERANDS = 6
"""Most numbers the solver takes: 27142 inequivalent expressions over 5 operands, 793002 over 6."""


def checked_operands(numbers: Sequence[int]) -> tuple[int, ...]:
    """The numbers in ascending order; DataError for more than the solver takes."""
    if len(numbers) > MAX_OPERANDS:
        raise DataError(f"The solver takes 1 to {MAX_OPERANDS} numbers, got {len(numbers)}.")
    return tuple(sorted(numbers))


def _sub_multisets(numbers: tuple[int, ...], rules: Rules) -> list[tuple[int, ...]]:
    """The multisets of numbers that a solution may use, the whole set first."""
    if rules.use_all:
        return [numbers]
    sizes = range(len(numbers), 0, -1)
    return list(dict.fromkeys(chosen for size in sizes for chosen in combinations(numbers, size)))


@lru_cache(maxsize=1 << 16)
def _solve_sorted(numbers: tuple[int, ...], target: int, rules: Rules) -> Node | None:
    found = (node for chosen in _sub_multisets(numbers, rules) for node in candidates(chosen, target, rules))
    return next(found, None)


def solution_tree(problem: Problem, rules: Rules = DEFAULT_RULES) -> Node | None:
    """The tree of the expression that `solve` returns."""
    return _solve_sorted(checked_operands(problem.numbers), problem.target, rules)


def solve(problem: Problem, rules: Rules = DEFAULT_RULES) -> str | None:
    """An expression that `verify` scores as correct under `rules`, or None if there is none.

    The same for every order of the numbers. Raises DataError for more than 6 numbers.
    """
    tree = solution_tree(problem, rules)
    return None if tree is None else tree.text()


def is_solvable(problem: Problem, rules: Rules = DEFAULT_RULES) -> bool:
    """Whether a solution exists. Many problems at once: `is_solvable_batch`. Raises DataError beyond 6 numbers."""
    return solution_tree(problem, rules) is not None


@lru_cache(maxsize=1 << 12)
def _reachable_sorted(numbers: tuple[int, ...], low: int, high: int, rules: Rules) -> tuple[tuple[int, int], ...]:
    counts: dict[int, int] = {}
    for chosen in _sub_multisets(numbers, rules):
        targets = _hits(chosen, low, high, rules).targets
        for target, count in zip(*np.unique(targets, return_counts=True), strict=True):
            counts[int(target)] = counts.get(int(target), 0) + int(count)
    return tuple(sorted(counts.items()))


def reachable_targets(numbers: Sequence[int], low: int, high: int, rules: Rules = DEFAULT_RULES) -> dict[int, int]:
    """Target -> number of distinct solutions, for every integer from `low` to `high` that has one; ascending.

    Solutions are distinct if they are inequivalent as OEIS A140606 counts expressions (order, grouping and moved signs
    do not matter), with equal numbers interchangeable. Raises DataError for no or more than 6 numbers.
    """
    checked = Problem(tuple(numbers), 0).numbers
    return dict(_reachable_sorted(checked_operands(checked), int(low), int(high), rules))


def count_solutions(problem: Problem, rules: Rules = DEFAULT_RULES) -> int:
    """Number of distinct solutions, as `reachable_targets` counts them."""
    return reachable_targets(problem.numbers, problem.target, problem.target, rules).get(problem.target, 0)


def solution_trees(problem: Problem, rules: Rules = DEFAULT_RULES) -> list[Node]:
    """All distinct solutions as trees, as many as `count_solutions` says. Raises DataError beyond 6 numbers."""
    trees: list[Node] = []
    for chosen in _sub_multisets(checked_operands(problem.numbers), rules):
        found = _hits(chosen, problem.target, problem.target, rules)
        for index, negated in zip(found.forms.tolist(), found.negated.tolist(), strict=True):
            tree = form(chosen, index)
            signed = tree.negative() if negated else tree
            assert signed is not None  # what is counted as negated can be
            trees.append(signed)
    return trees


def _hits(chosen: tuple[int, ...], low: int, high: int, rules: Rules) -> Hits:
    row = np.array([chosen])
    return hits(Values(row.T, rules.integers_only, len(chosen)), row, symbols_of(chosen), low, high, rules)


def all_solutions(problem: Problem, rules: Rules = DEFAULT_RULES) -> list[str]:
    """All distinct solutions as expressions that `verify` scores as correct; short ones first."""
    return sorted((tree.text() for tree in solution_trees(problem, rules)), key=lambda text: (len(text), text))
