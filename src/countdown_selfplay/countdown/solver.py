"""The exact solver: is there a solution, which one, how many, and which targets can be reached.

One problem at a time the answers are cached; in batches they are computed in NumPy arrays, in as many threads as there
are cores. meeting.py decides, counting.py counts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import combinations

import numpy as np

from ..errors import DataError
from .counting import hits
from .meeting import candidates, is_exact, meets, phases
from .nodes import Node, form
from .problem import MAX_MAGNITUDE, Problem
from .repeats import symbols_of
from .rules import DEFAULT_RULES, Rules
from .values import Array, Values

MAX_OPERANDS = 6
"""Most numbers the solver takes: 27142 inequivalent expressions over 5 operands, 793002 over 6."""

DECIDE_CHUNK = {1: 4096, 2: 2048, 3: 512, 4: 64, 5: 16}
"""Operands in the largest subset that is computed -> problems per chunk. Measured: fewer cost more calls, more leave
the second-level cache."""

COUNT_CHUNK = {1: 4096, 2: 4096, 3: 1024, 4: 192, 5: 8, 6: 1}
"""Operands -> sets of numbers per chunk."""


def _checked(numbers: Sequence[int]) -> tuple[int, ...]:
    if len(numbers) > MAX_OPERANDS:
        raise DataError(f"The solver takes 1 to {MAX_OPERANDS} numbers, got {len(numbers)}.")
    return tuple(sorted(numbers))


def _sub_multisets(numbers: tuple[int, ...], rules: Rules) -> list[tuple[int, ...]]:
    """The multisets of numbers that a solution may use, the whole set first."""
    if rules.use_all:
        return [numbers]
    sizes = range(len(numbers), 0, -1)
    return list(dict.fromkeys(chosen for size in sizes for chosen in combinations(numbers, size)))


# One problem


@lru_cache(maxsize=1 << 16)
def _solve_sorted(numbers: tuple[int, ...], target: int, rules: Rules) -> str | None:
    for chosen in _sub_multisets(numbers, rules):
        for node in candidates(chosen, target, rules):
            return node.text()
    return None


def solve(problem: Problem, rules: Rules = DEFAULT_RULES) -> str | None:
    """An expression that `verify` scores as correct under `rules`, or None if there is none.

    The same for every order of the numbers. Raises DataError for more than 6 numbers.
    """
    return _solve_sorted(_checked(problem.numbers), problem.target, rules)


def is_solvable(problem: Problem, rules: Rules = DEFAULT_RULES) -> bool:
    """Whether a solution exists. Many problems at once: `is_solvable_batch`. Raises DataError beyond 6 numbers."""
    return _solve_sorted(_checked(problem.numbers), problem.target, rules) is not None


@lru_cache(maxsize=1 << 12)
def _reachable_sorted(numbers: tuple[int, ...], low: int, high: int, rules: Rules) -> tuple[tuple[int, int], ...]:
    counts: dict[int, int] = {}
    for chosen in _sub_multisets(numbers, rules):
        row = np.array([chosen])
        values = Values(row.T, rules.integers_only, len(chosen))
        targets = hits(values, row, symbols_of(chosen), low, high, rules).targets
        for target, count in zip(*np.unique(targets, return_counts=True), strict=True):
            counts[int(target)] = counts.get(int(target), 0) + int(count)
    return tuple(sorted(counts.items()))


def reachable_targets(numbers: Sequence[int], low: int, high: int, rules: Rules = DEFAULT_RULES) -> dict[int, int]:
    """Target -> number of distinct solutions, for every integer from `low` to `high` that has one; ascending.

    Solutions are distinct if they are inequivalent as OEIS A140606 counts expressions (order, grouping and moved signs
    do not matter), with equal numbers interchangeable. Raises DataError for no or more than 6 numbers.
    """
    checked = Problem(tuple(numbers), 0).numbers
    return dict(_reachable_sorted(_checked(checked), int(low), int(high), rules))


def count_solutions(problem: Problem, rules: Rules = DEFAULT_RULES) -> int:
    """Number of distinct solutions, as `reachable_targets` counts them."""
    return reachable_targets(problem.numbers, problem.target, problem.target, rules).get(problem.target, 0)


def solution_trees(problem: Problem, rules: Rules = DEFAULT_RULES) -> list[Node]:
    """All distinct solutions as trees, as many as `count_solutions` says. Raises DataError beyond 6 numbers."""
    trees: list[Node] = []
    for chosen in _sub_multisets(_checked(problem.numbers), rules):
        row = np.array([chosen])
        values = Values(row.T, rules.integers_only, len(chosen))
        found = hits(values, row, symbols_of(chosen), problem.target, problem.target, rules)
        for index, negated in zip(found.forms.tolist(), found.negated.tolist(), strict=True):
            tree = form(chosen, index)
            trees.append(_negative(tree) if negated else tree)
    return trees


def _negative(tree: Node) -> Node:
    negative = tree.negative()
    if negative is None:
        raise AssertionError(f"{tree.text()} was counted as one that can be negated")
    return negative


def all_solutions(problem: Problem, rules: Rules = DEFAULT_RULES) -> list[str]:
    """All distinct solutions as expressions that `verify` scores as correct; short ones first."""
    return sorted((tree.text() for tree in solution_trees(problem, rules)), key=lambda text: (len(text), text))


# Many problems


def is_solvable_batch(
    problems: Iterable[Problem], rules: Rules = DEFAULT_RULES, workers: int | None = None
) -> list[bool]:
    """Whether each problem has a solution, in order; the same answers as `is_solvable`.

    workers: threads (NumPy releases the interpreter's lock); None: one per core this process may use. Raises DataError
    beyond 6 numbers.
    """
    listed = list(problems)
    by_size: dict[int, list[int]] = {}
    for i, problem in enumerate(listed):
        by_size.setdefault(len(_checked(problem.numbers)), []).append(i)
    found = np.zeros(len(listed), dtype=bool)
    for members in by_size.values():
        numbers_PK = np.array([listed[i].numbers for i in members], dtype=np.int64)
        target_P = np.array([listed[i].target for i in members], dtype=np.int64)
        found[members] = solvable_arrays(numbers_PK, target_P, rules, workers)
    return [bool(x) for x in found]


def solvable_arrays(
    numbers_PK: Array, target_P: Array, rules: Rules = DEFAULT_RULES, workers: int | None = None
) -> Array:
    """(problems,) bool: `is_solvable_batch` on arrays, (problems, k) positive integers and (problems,) targets."""
    numbers_PK, target_P = _integers(numbers_PK, 2), _integers(target_P, 1)
    problems, k = numbers_PK.shape
    if not problems:
        return np.zeros(0, dtype=bool)
    exact = is_exact(k, int(numbers_PK.max()), int(np.abs(target_P).max()))
    if not exact or k == 1 or not rules.use_all or (target_P < 0).any():  # rare: one by one, with confirmation
        rows = zip(numbers_PK.tolist(), target_P.tolist(), strict=True)
        return np.array([is_solvable(Problem(tuple(numbers), target), rules) for numbers, target in rows])

    solved = np.zeros(problems, dtype=bool)
    for up_to, sizes in phases(k):
        open_P = np.flatnonzero(~solved)
        numbers, targets = numbers_PK[open_P], target_P[open_P]
        work = _decider(numbers, targets, sizes, _Memory(rules.integers_only, up_to))
        if open_P.size:
            solved[open_P] = np.concatenate(_in_threads(work, len(open_P), DECIDE_CHUNK[up_to], workers))
    return solved


def _decider(numbers_PK: Array, target_P: Array, sizes: tuple[int, ...], memory: _Memory) -> Callable[[slice], Array]:
    """A function that says of a slice of the problems which have a solution by a split of these sizes."""

    def decide(part: slice) -> Array:
        values = memory.values(numbers_PK[part])
        found = np.zeros(values.problems, dtype=bool)
        for _, _, met in meets(values, target_P[part], True, sizes):
            found |= met.any(axis=(0, 1))
        return found

    return decide


def reachable_counts(
    numbers_PK: Array, low: int, high: int, rules: Rules = DEFAULT_RULES, workers: int | None = None
) -> Array:
    """(problems, high - low + 1) int64: `reachable_targets` of many sets of numbers, (problems, k), at once.

    Entry [p, t - low] is the number of distinct solutions of target t. Raises DataError beyond 6 numbers.
    """
    ordered_PK = np.sort(_integers(numbers_PK, 2), axis=1)
    problems, k = ordered_PK.shape
    width = high - low + 1
    counts = np.zeros((problems, width), dtype=np.int64)
    if not rules.use_all:
        for p, row in enumerate(ordered_PK.tolist()):
            for target, count in reachable_targets(row, low, high, rules).items():
                counts[p, target - low] = count
        return counts
    # Rows with the same pattern of equal numbers share their list of what to count.
    pattern_P = (np.diff(ordered_PK, axis=1) > 0) @ (1 << np.arange(k - 1)) if k > 1 else np.zeros(problems, np.int64)
    memory = _Memory(rules.integers_only, k)
    for pattern in np.unique(pattern_P):
        members = np.flatnonzero(pattern_P == pattern)
        chosen_PK = ordered_PK[members]

        def tally(part: slice, chosen_PK: Array = chosen_PK) -> Array:
            rows = chosen_PK[part]
            found = hits(memory.values(rows), rows, symbols_of(tuple(rows[0].tolist())), low, high, rules)
            flat = np.bincount(found.problems * width + (found.targets - low), minlength=len(rows) * width)
            return flat.reshape(len(rows), width)

        counts[members] = np.concatenate(_in_threads(tally, len(members), COUNT_CHUNK[k], workers))
    return counts


def _integers(values: Array, dimensions: int) -> Array:
    """The array as int64, checked like the fields of a Problem."""
    array = np.asarray(values)
    if array.ndim != dimensions or (array.size and array.dtype.kind not in "iu"):
        raise DataError(f"An array of {dimensions} dimensions of integers is needed, got {array.dtype} {array.shape}.")
    array = array.astype(np.int64)
    if array.size and np.abs(array).max() > MAX_MAGNITUDE:
        raise DataError(f"Numbers and targets must lie within {MAX_MAGNITUDE:,} of zero.")
    if dimensions == 2:
        _checked(range(array.shape[1]))
        if not array.shape[1] or (array.size and array.min() < 1):
            raise DataError("Every row must hold at least one number, and numbers must be positive.")
    return array


class _Memory(threading.local):
    """Each thread's own Values, used again as long as the chunks have one size."""

    def __init__(self, integers_only: bool, up_to: int) -> None:
        self.options = integers_only, up_to
        self.last: Values | None = None

    def values(self, numbers_PK: Array) -> Values:
        """Values of a chunk, valid until the next chunk of this thread."""
        numbers_KP = np.ascontiguousarray(numbers_PK.T)
        if self.last is None or self.last.problems != numbers_KP.shape[1]:
            self.last = Values(numbers_KP, *self.options)
        else:
            self.last.fill(numbers_KP)
        return self.last


def _in_threads(work: Callable[[slice], Array], total: int, size: int, workers: int | None) -> list[Array]:
    """`work` on consecutive slices of at most `size` of `total`, in order."""
    parts = [slice(start, min(start + size, total)) for start in range(0, total, size)]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = min(cores if workers is None else workers, len(parts))
    if threads <= 1:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, parts))
