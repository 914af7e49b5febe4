"""Exact solver: solvability, one or all solutions, their number, and reachable targets. One problem at a time, with a
cache, or batches as NumPy arrays in one thread per core. Results depend neither on the order of the problems nor on
the number of threads."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import combinations
from typing import TypeVar

import numpy as np

from ...errors import DataError
from ..problem import MAX_MAGNITUDE, Problem
from ..rules import DEFAULT_RULES, Rules
from .forms import Array, Node, form
from .meeting import Bound, Hits, candidates, hits, is_exact, meets, phases, symbols_of
from .values import Values

MAX_OPERANDS = 6
"""Largest number of operands: 27142 inequivalent expressions over 5, 793002 over 6."""


def checked_operands(numbers: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers in ascending order. Raises DataError for more than the solver's limit."""
    if len(numbers) > MAX_OPERANDS:
        raise DataError(f"The solver takes 1 to {MAX_OPERANDS} numbers, got {len(numbers)}.")
    return tuple(sorted(numbers))


def _sub_multisets(numbers: tuple[int, ...], rules: Rules) -> list[tuple[int, ...]]:
    if rules.use_all:
        return [numbers]
    sizes = range(len(numbers), 0, -1)
    return list(dict.fromkeys(chosen for size in sizes for chosen in combinations(numbers, size)))


@lru_cache(maxsize=1 << 16)
def _solve_sorted(numbers: tuple[int, ...], target: int, rules: Rules) -> Node | None:
    nodes = (node for chosen in _sub_multisets(numbers, rules) for node in candidates(chosen, target, rules))
    return next(nodes, None)


def solution_tree(problem: Problem, rules: Rules = DEFAULT_RULES) -> Node | None:
    return _solve_sorted(checked_operands(problem.numbers), problem.target, rules)


def solve(problem: Problem, rules: Rules = DEFAULT_RULES) -> str | None:
    """Return an expression that `verify` scores as correct under `rules`, or None; the same for every order of the
    numbers. Raises DataError for more than 6 numbers."""
    tree = solution_tree(problem, rules)
    return None if tree is None else tree.text()


def is_solvable(problem: Problem, rules: Rules = DEFAULT_RULES) -> bool:
    """Return whether a solution exists. For many problems: `is_solvable_batch`. Raises DataError beyond 6 numbers."""
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
    """Return target -> number of distinct solutions, for every integer from `low` to `high` that has one; ascending.
    Solutions are distinct if they are inequivalent expressions of OEIS A140606 (order, grouping and moved signs do not
    matter), with equal numbers interchangeable. Raises DataError for no or more than 6 numbers."""
    checked = Problem(tuple(numbers), 0).numbers
    return dict(_reachable_sorted(checked_operands(checked), int(low), int(high), rules))


def count_solutions(problem: Problem, rules: Rules = DEFAULT_RULES) -> int:
    """Return the number of distinct solutions, as in `reachable_targets`."""
    return reachable_targets(problem.numbers, problem.target, problem.target, rules).get(problem.target, 0)


def solution_trees(problem: Problem, rules: Rules = DEFAULT_RULES) -> list[Node]:
    """Return all distinct solutions as trees, `count_solutions` in number. Raises DataError beyond 6 numbers."""
    trees: list[Node] = []
    for chosen in _sub_multisets(checked_operands(problem.numbers), rules):
        hits = _hits(chosen, problem.target, problem.target, rules)
        for index, negated in zip(hits.forms.tolist(), hits.negated.tolist(), strict=True):
            tree = form(chosen, index)
            signed = tree.negative() if negated else tree
            assert signed is not None  # forms that are counted as negated can be negated
            trees.append(signed)
    return trees


def _hits(chosen: tuple[int, ...], low: int, high: int, rules: Rules) -> Hits:
    row = np.array([chosen])
    return hits(Values(row.T, rules.integers_only, len(chosen)), row, symbols_of(chosen), low, high, rules)


def all_solutions(problem: Problem, rules: Rules = DEFAULT_RULES) -> list[str]:
    """Return all distinct solutions as expressions that `verify` scores as correct; short ones first."""
    return sorted((tree.text() for tree in solution_trees(problem, rules)), key=lambda text: (len(text), text))


T = TypeVar("T")

DECIDE_CHUNK = {1: 4096, 2: 2048, 3: 512, 4: 64, 5: 16}
"""Operands in the largest computed subset -> problems per chunk. Measured: more exceed the second-level cache."""

COUNT_CHUNK = {1: 4096, 2: 4096, 3: 1024, 4: 192, 5: 8, 6: 1}
"""Operands -> sets of numbers per chunk."""


def is_solvable_batch(
    problems: Iterable[Problem], rules: Rules = DEFAULT_RULES, workers: int | None = None
) -> list[bool]:
    """Return whether each problem has a solution, in order, as `is_solvable`. workers: threads (NumPy releases the
    GIL); None: one per available core. Raises DataError beyond 6 numbers."""
    listed = list(problems)
    solvable = np.zeros(len(listed), dtype=bool)
    for members, numbers_PK, target_P in by_operands(listed):
        solvable[members] = solvable_arrays(numbers_PK, target_P, rules, workers)
    return solvable.tolist()


def by_operands(problems: Sequence[Problem]) -> Iterator[tuple[list[int], Array, Array]]:
    """Yield indices, numbers (problems, k) and targets of the problems of each operand count."""
    by_size: dict[int, list[int]] = {}
    for i, problem in enumerate(problems):
        by_size.setdefault(len(checked_operands(problem.numbers)), []).append(i)
    for members in by_size.values():
        numbers_PK = np.array([problems[i].numbers for i in members], dtype=np.int64)
        yield members, numbers_PK, np.array([problems[i].target for i in members], dtype=np.int64)


def solvable_arrays(
    numbers_PK: Array, target_P: Array, rules: Rules = DEFAULT_RULES, workers: int | None = None
) -> Array:
    """Return `is_solvable_batch`, (problems,) bool, of arrays (problems, k) and targets (problems,)."""
    numbers_PK, target_P = _integers(numbers_PK, 2), _integers(target_P, 1)
    problems, k = numbers_PK.shape
    if len(target_P) != problems:
        raise DataError(f"Every row needs one target, got {problems} rows and {len(target_P)} targets.")
    if rules.use_all:
        return _solvable_with_all(numbers_PK, target_P, rules, workers)
    solved = np.zeros(problems, dtype=bool)
    for chosen in (chosen for size in range(1, k + 1) for chosen in combinations(range(k), size)):
        open_P = np.flatnonzero(~solved)
        solved[open_P] = _solvable_with_all(numbers_PK[open_P][:, chosen], target_P[open_P], rules, workers)
    return solved


def _solvable_with_all(numbers_PK: Array, target_P: Array, rules: Rules, workers: int | None) -> Array:
    """Return whether some expression over all numbers of a row has its target as value, (problems,) bool. If rounding
    could matter, or for a negative target, array hits are candidates, which `candidates` confirms exactly; there are
    no other solutions."""
    problems, k = numbers_PK.shape
    if not problems or k == 1:
        return numbers_PK[:, 0] == target_P if problems else np.zeros(0, dtype=bool)
    exact = is_exact(k, int(numbers_PK.max()), int(np.abs(target_P).max()))
    solved = np.zeros(problems, dtype=bool)
    for up_to, sizes in phases(k):
        open_P = np.flatnonzero(~solved)
        if not open_P.size:
            break
        memory, goal_P = _Memory(rules.integers_only, up_to), target_P[open_P]
        work = partial(_decide, numbers_PK[open_P], goal_P, sizes, exact, memory)
        solvable = np.concatenate(_in_threads(work, len(open_P), DECIDE_CHUNK[up_to], workers))
        for i in np.flatnonzero(solvable & (not exact or goal_P < 0)):
            numbers = tuple(sorted(numbers_PK[open_P[i]].tolist()))
            solvable[i] = any(True for _ in candidates(numbers, int(goal_P[i]), rules))
        solved[open_P] = solvable
    return solved


def _decide(
    numbers_PK: Array, target_P: Array, sizes: Sequence[int], exact: bool, memory: "_Memory", part: slice
) -> Array:
    """Return which problems of a slice have a solution by a split of these sizes, up to sign."""
    values = memory.values(numbers_PK[part])
    solvable = np.zeros(values.problems, dtype=bool)
    for _, _, met in meets(values, target_P[part], exact, sizes):
        solvable |= met.any(axis=(0, 1))
    return solvable


def reachable_counts(
    numbers_PK: Array, low: int, high: int, rules: Rules = DEFAULT_RULES, workers: int | None = None
) -> Array:
    """Return `reachable_targets` of many sets of numbers (problems, k), as (problems, high - low + 1) int64. Entry [p,
    t - low] is the number of distinct solutions of target t. Raises DataError beyond 6 numbers."""
    ordered_PK = np.sort(_integers(numbers_PK, 2), axis=1)
    if rules.use_all:
        return _counts_with_all(ordered_PK, low, high, rules, workers)
    problems, k = ordered_PK.shape
    counts = np.zeros((problems, high - low + 1), dtype=np.int64)
    for chosen in (chosen for size in range(1, k + 1) for chosen in combinations(range(k), size)):
        taken = first_choice(ordered_PK, chosen)
        counts[taken] += _counts_with_all(ordered_PK[taken][:, chosen], low, high, rules, workers)
    return counts


def first_choice(ordered_PK: Array, chosen: tuple[int, ...]) -> Array:
    """Return in which ascending rows no position left of the `chosen` ones would select the same numbers, (problems,)
    bool, so that every sub-multiset of a row is taken once."""
    taken = np.ones(len(ordered_PK), dtype=bool)
    for i in chosen:
        if i and i - 1 not in chosen:
            taken &= ordered_PK[:, i] != ordered_PK[:, i - 1]
    return taken


def _counts_with_all(ordered_PK: Array, low: int, high: int, rules: Rules, workers: int | None) -> Array:
    width = high - low + 1
    counts = np.zeros((len(ordered_PK), width), dtype=np.int64)

    def tally(hits: Hits, rows: Array) -> Array:
        flat = np.bincount(hits.problems * width + (hits.targets - low), minlength=len(rows) * width)
        return flat.reshape(len(rows), width)

    for members, parts in _by_pattern(ordered_PK, low, high, rules, workers, tally):
        counts[members] = np.concatenate(parts)
    return counts


def solution_forms(ordered_PK: Array, low: Bound, high: Bound, rules: Rules, workers: int | None = None) -> Hits:
    """Return every distinct solution, over all numbers of its row, of every target from `low` to `high` (for all rows,
    or (problems,) one each), as indices of forms; rows are ascending, (problems, k), k up to 6. The same solutions as
    those of `solution_trees` with every number used."""

    def placed(hits: Hits, rows: Array) -> Hits:
        return hits._replace(problems=rows[hits.problems])

    whole = [Hits(*(np.zeros(0, dtype=t) for t in (np.int64, np.int64, np.int64, bool)))]
    for _, parts in _by_pattern(ordered_PK, low, high, rules, workers, placed):
        whole += parts
    return Hits(*(np.concatenate(column) for column in zip(*whole, strict=True)))


def _by_pattern(
    ordered_PK: Array, low: Bound, high: Bound, rules: Rules, workers: int | None, use: Callable[[Hits, Array], T]
) -> Iterator[tuple[Array, list[T]]]:
    """Yield (rows, result of `use` on the hits of each chunk of these rows) for every pattern of equal numbers: rows
    with one pattern share their list of countable forms."""
    problems, k = ordered_PK.shape
    pattern_P = (np.diff(ordered_PK, axis=1) > 0) @ (1 << np.arange(k - 1)) if k > 1 else np.zeros(problems, np.int64)
    memory = _Memory(rules.integers_only, k)
    for pattern in np.unique(pattern_P):
        members = np.flatnonzero(pattern_P == pattern)

        def search(part: slice, members: Array = members) -> T:
            rows = members[part]
            numbers_PK = ordered_PK[rows]
            symbols = symbols_of(tuple(numbers_PK[0].tolist()))
            least, most = (bound if isinstance(bound, int) else bound[rows] for bound in (low, high))
            return use(hits(memory.values(numbers_PK), numbers_PK, symbols, least, most, rules), rows)

        yield members, _in_threads(search, len(members), COUNT_CHUNK[k], workers)


def _integers(values: Array, dimensions: int) -> Array:
    array = np.asarray(values)
    if array.ndim != dimensions or (array.size and array.dtype.kind not in "iu"):
        raise DataError(f"An array of {dimensions} dimensions of integers is needed, got {array.dtype} {array.shape}.")
    array = array.astype(np.int64)
    if array.size and np.abs(array).max() > MAX_MAGNITUDE:
        raise DataError(f"Numbers and targets must lie within {MAX_MAGNITUDE:,} of zero.")
    if dimensions == 2:
        checked_operands(range(array.shape[1]))
        if not array.shape[1] or (array.size and array.min() < 1):
            raise DataError("Every row must hold at least one number, and numbers must be positive.")
    return array


class _Memory(threading.local):
    """Thread-local Values, reused while chunks have one size."""

    def __init__(self, integers_only: bool, up_to: int) -> None:
        self.options = integers_only, up_to
        self.last: Values | None = None

    def values(self, numbers_PK: Array) -> Values:
        """Return the values of a chunk, valid until the next chunk of this thread."""
        numbers_KP = np.ascontiguousarray(numbers_PK.T)
        if self.last is None or self.last.problems != numbers_KP.shape[1]:
            self.last = Values(numbers_KP, *self.options)
        else:
            self.last.fill(numbers_KP)
        return self.last


def _in_threads(work: Callable[[slice], T], total: int, size: int, workers: int | None) -> list[T]:
    parts = [slice(start, min(start + size, total)) for start in range(0, total, size)]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = min(cores if workers is None else workers, len(parts))
    if threads <= 1:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, parts))
