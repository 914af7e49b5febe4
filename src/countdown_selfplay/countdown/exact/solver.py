"""Exact solver: decides whether a solution exists and returns one; listing.py lists all.

It takes one problem at a time, with cached results, or many at once as NumPy arrays, in one thread per core: the
results are the same, and depend neither on the order of the problems nor on the number of threads.

The search meets in the middle: every expression is `x op y` with x over some operands and y over the others, so the
forms of proper subsets suffice. If x is a single number, the values of y are compared with 5 constants. Comparisons
are exact, not tolerant, wherever all numbers involved are below 2^53 (`is_exact`: up to 5 operands of at most 999, 6
of at most 406). Beyond that they are tolerant and every candidate is confirmed with Python's rationals."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from itertools import combinations
from typing import TypeVar

import numpy as np

from ...errors import DataError
from ..problem import DEFAULT_RULES, MAX_MAGNITUDE, Problem, Rules
from .forms import ADD, DIV, MUL, SUB, Array, Node, combine, form
from .values import EXACT, Values, largest

MAX_OPERANDS = 6
"""Largest number of operands: 27142 inequivalent expressions over 5, 793002 over 6."""


def checked_operands(numbers: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers in ascending order. Raises DataError for more than MAX_OPERANDS."""
    if len(numbers) > MAX_OPERANDS:
        raise DataError(f"The solver takes 1 to {MAX_OPERANDS} numbers, got {len(numbers)}.")
    return tuple(sorted(numbers))


def sub_multisets(numbers: tuple[int, ...], rules: Rules) -> list[tuple[int, ...]]:
    """Return the multisets of numbers that a solution may use, largest first."""
    if rules.use_all:
        return [numbers]
    sizes = range(len(numbers), 0, -1)
    return list(dict.fromkeys(chosen for size in sizes for chosen in combinations(numbers, size)))


@lru_cache(maxsize=1 << 16)
def _solve_sorted(numbers: tuple[int, ...], target: int, rules: Rules) -> Node | None:
    found = (node for chosen in sub_multisets(numbers, rules) for node in candidates(chosen, target, rules))
    return next(found, None)


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


T = TypeVar("T")

DECIDE_CHUNK = {1: 4096, 2: 2048, 3: 512, 4: 64, 5: 16}
"""Size of the largest computed subset -> problems per chunk; larger chunks exceed the second-level cache."""


def is_solvable_batch(
    problems: Iterable[Problem], rules: Rules = DEFAULT_RULES, workers: int | None = None
) -> list[bool]:
    """Return `is_solvable` of each problem, in order, much faster than one by one. workers: number of threads (NumPy
    releases the GIL); None: one per available core. Raises DataError beyond 6 numbers."""
    listed = list(problems)
    solvable = np.zeros(len(listed), dtype=bool)
    for members, numbers_PK, target_P in by_operands(listed):
        solvable[members] = solvable_arrays(numbers_PK, target_P, rules, workers)
    return solvable.tolist()


def by_operands(problems: Sequence[Problem]) -> Iterator[tuple[list[int], Array, Array]]:
    """Yield (indices, numbers (problems, k), targets (problems,)) of the problems of each operand count."""
    by_size: dict[int, list[int]] = {}
    for i, problem in enumerate(problems):
        by_size.setdefault(len(checked_operands(problem.numbers)), []).append(i)
    for members in by_size.values():
        numbers_PK = np.array([problems[i].numbers for i in members], dtype=np.int64)
        yield members, numbers_PK, np.array([problems[i].target for i in members], dtype=np.int64)


def solvable_arrays(
    numbers_PK: Array, target_P: Array, rules: Rules = DEFAULT_RULES, workers: int | None = None
) -> Array:
    """Return whether each problem has a solution, (problems,) bool, given arrays (problems, k) and (problems,)."""
    numbers_PK, target_P = integers(numbers_PK, 2), integers(target_P, 1)
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
    could matter, or for a negative target, hits in arrays are only possible solutions, which `candidates` confirms
    exactly; no solution is missed."""
    problems, k = numbers_PK.shape
    if not problems or k == 1:
        return numbers_PK[:, 0] == target_P if problems else np.zeros(0, dtype=bool)
    exact = is_exact(k, int(numbers_PK.max()), int(np.abs(target_P).max()))
    solved = np.zeros(problems, dtype=bool)
    for up_to, sizes in phases(k):
        open_P = np.flatnonzero(~solved)
        if not open_P.size:
            break
        memory, goal_P = Memory(rules.integers_only, up_to), target_P[open_P]
        work = partial(_decide, numbers_PK[open_P], goal_P, sizes, exact, memory)
        solvable = np.concatenate(in_threads(work, len(open_P), DECIDE_CHUNK[up_to], workers))
        for i in np.flatnonzero(solvable & (not exact or goal_P < 0)):
            numbers = tuple(sorted(numbers_PK[open_P[i]].tolist()))
            solvable[i] = any(True for _ in candidates(numbers, int(goal_P[i]), rules))
        solved[open_P] = solvable
    return solved


def _decide(
    numbers_PK: Array, target_P: Array, sizes: Sequence[int], exact: bool, memory: "Memory", part: slice
) -> Array:
    """Return which problems of a slice reach the target or its negative by a split with one of these `sizes`."""
    values = memory.values(numbers_PK[part])
    solvable = np.zeros(values.problems, dtype=bool)
    for _, _, met in meets(values, target_P[part], exact, sizes):
        solvable |= met.any(axis=(0, 1))
    return solvable


def integers(values: Array, dimensions: int) -> Array:
    """Return `values` as int64. Raises DataError for another number of dimensions and values that Problem refuses."""
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


class Memory(threading.local):
    """Thread-local buffer of Values, reused while the chunks have the same size."""

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


def in_threads(work: Callable[[slice], T], total: int, size: int, workers: int | None) -> list[T]:
    """Return the results of `work` on consecutive slices of range(total), at most `size` long, in order."""
    parts = [slice(start, min(start + size, total)) for start in range(0, total, size)]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = min(cores if workers is None else workers, len(parts))
    if threads <= 1:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, parts))


TOLERANCE = 1e-12
"""Relative tolerance of candidates, which exact arithmetic then confirms."""


def is_exact(k: int, number: int, target: int) -> bool:
    """Return whether every comparison over k operands of at most `number` is exact (bounds: values.py). Both sides are
    integers. Sums of two products of degree k - 1, and products of numerators, are at most twice `largest(k, number)`,
    thus exact. The other side, the target times a denominator, may be rounded if it exceeds 2^53, but never to below
    2^53, so that it cannot equal a smaller number."""
    return 2 * largest(k, number) < EXACT and abs(target) < EXACT


def phases(k: int) -> list[tuple[int, tuple[int, ...]]]:
    """Return the splits to try, in order: (size of the largest subset, sizes of the smaller side). From five operands
    on, splits without a single number come first: they need much smaller subsets and solve most solvable problems."""
    return [(k - 1, (1, 2))] if k < 5 else [(k - 2, (2, 3)), (k - 1, (1,))]


def meets(values: Values, target_P: Array, exact: bool, sizes: Sequence[int]) -> Iterator[tuple[int, int, Array]]:
    """Yield (left mask, right mask, hits) for every split of the operands in two whose smaller side has one of the
    `sizes`. hits (left forms, right forms, problems): whether some `x op y` has the absolute value of the target;
    unless `exact`, whether it may have. The sign is irrelevant for targets of 0 and more: a negative value contains a
    difference, and can be negated."""
    whole_set = (1 << values.k) - 1
    goal = np.abs(target_P).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        for left in range(1, whole_set):
            right = whole_set & ~left
            size = left.bit_count()
            if size not in sizes or size * 2 > values.k or (size * 2 == values.k and not left & 1):
                continue
            if size == 1:
                yield left, right, _single_hits(values, left, right, goal, exact)
            else:
                yield left, right, _pair_hits(values, left, right, goal, exact)


def _single_hits(values: Values, left: int, right: int, goal: Array, exact: bool) -> Array:
    """Return which forms y of the other operands give the target T with the number a: |y| is T + a, |T - a|, T a,
    T / a or a / T. Both y and these are correctly rounded quotients of exact integers, so that equal values compare
    equal; unequal ones differ by far more than a rounding error while numerators are below 2^52."""
    number = values.numbers_KP[left.bit_length() - 1].astype(np.float64)
    size_FP = np.abs(values.quotients(right))
    wanted = [goal + number, np.abs(goal - number), goal * number, goal / number]
    if exact or goal.all():  # infinite for a target of 0, and equal to no quotient
        wanted.append(number / goal)
    hits = np.zeros(size_FP.shape, dtype=bool)
    for constant in wanted:
        hits |= size_FP == constant if exact else near(size_FP, constant)
    return hits[None]


def near(x: Array, y: Array) -> Array:
    """Return whether |x - y| <= 2 TOLERANCE |y|, for y >= 0, by two comparisons, because x has millions of entries."""
    margin = 2 * TOLERANCE
    return (x >= y * (1 - margin)) & (x <= y * (1 + margin))


def _pair_hits(values: Values, left: int, right: int, goal: Array, exact: bool) -> Array:
    """Return which pairs of forms, each over two or more operands, give the target, compared as integers if exact."""
    if not exact:
        x, y = values.quotients(left)[:, None], values.quotients(right)[None, :]
        size_x, size_y = np.abs(x), np.abs(y)
        slack = (size_x + size_y + goal) * TOLERANCE
        apart = np.abs(x + y)
        apart -= goal
        hits = np.abs(apart, out=apart) <= slack
        np.subtract(x, y, out=apart)
        np.abs(apart, out=apart)
        apart -= goal
        hits |= np.abs(apart, out=apart) <= slack
        hits |= near(size_x * size_y, goal)
        hits |= near(size_x, goal * size_y)
        hits |= near(size_y, goal * size_x)
        return hits
    (xn, xd), (yn, yd) = values.terms[left], values.terms[right]
    xn, yn = xn[:, None], yn[None, :]
    xd, yd = np.ones_like(xn) if xd is None else xd[:, None], np.ones_like(yn) if yd is None else yd[None, :]
    p, q, below = xn * yd, yn * xd, np.abs(xd * yd) * goal
    hits = np.abs(p + q) == below
    hits |= np.abs(p - q) == below
    hits |= np.abs(xn * yn) == below
    np.abs(p, out=p)
    np.abs(q, out=q)
    # p and q are the numerators of x and y over one denominator; a divisor of zero is not a hit: q == 0 needs p > 0
    hits |= (p == goal * q) & (q > 0)
    hits |= (q == goal * p) & (p > 0)
    return hits


def candidates(numbers: tuple[int, ...], target: int, rules: Rules) -> Iterator[Node]:
    """Yield expressions over all `numbers` (ascending) whose value is exactly the target."""
    if len(numbers) == 1:
        if numbers[0] == target:
            yield Node("number", target)
        return
    exact = is_exact(len(numbers), numbers[-1], target)
    steps = phases(len(numbers))
    values = Values(np.array(numbers).reshape(-1, 1), rules.integers_only, steps[-1][0], first=steps[0][0])
    for step, (_, sizes) in enumerate(steps):
        if step:
            values.extend()
        for left, right, hits in meets(values, np.array([target]), exact, sizes):
            a, b = (tuple(n for i, n in enumerate(numbers) if mask >> i & 1) for mask in (left, right))
            for i, j in zip(*np.nonzero(hits[..., 0]), strict=True):
                yield from _solutions(form(a, int(i)), form(b, int(j)), target, rules)


def _solutions(x: Node, y: Node, target: int, rules: Rules) -> Iterator[Node]:
    joined = [combine(op, x, y) for op in (ADD, SUB, MUL, DIV)]
    for node in (*joined, combine(SUB, y, x), combine(DIV, y, x)):
        signed = node if has_value(node, target, rules) else node.negative()
        if signed is not None and has_value(signed, target, rules):
            yield signed


def has_value(node: Node, target: int, rules: Rules) -> bool:
    """Return whether the expression has the value `target` under `rules`, in exact arithmetic."""
    return node.value() == target and (not rules.integers_only or node.integral())
