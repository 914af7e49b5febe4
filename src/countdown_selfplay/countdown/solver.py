"""The exact solver: is there a solution, which one, how many, and which targets can be reached.

Two ways through the forms of forms.py. *Meeting* decides a target: every expression is `x op y` with x over some
operands and y over the others, so the forms of proper subsets suffice; over single operands it is one look for five
constants. *Counting* goes through the forms of the whole set, each of which is one inequivalent expression.

Comparisons are exact, not tolerant, wherever all numbers involved are below 2^53 (values.py: up to 6 operands of at
most 455). Beyond that they are tolerant and every candidate is confirmed with Python's rationals.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import combinations

import numpy as np

from ..errors import DataError
from .forms import ADD, DIV, MUL, SUB, plan
from .nodes import Node, combine, form
from .problem import Problem
from .repeats import counted, symbols_of
from .rules import DEFAULT_RULES, Rules
from .values import EXACT, Array, Values, largest

MAX_OPERANDS = 6
"""Most numbers the solver takes: 27142 inequivalent expressions over 5 operands, 793002 over 6."""

TOLERANCE = 1e-12
"""Relative; only for candidates that exact arithmetic then confirms."""

CHUNK_ELEMENTS = 1 << 15
"""Forms of the largest proper subset times problems in a batch: keeps the arrays in the second-level cache."""


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


def _is_exact(k: int, number: int, target: int) -> bool:
    """Whether every comparison over k operands of at most `number` is a fact: see the bounds in values.py.

    Sides of a comparison are sums of two products of degree k - 1, or products of numerators, against the target times
    a denominator. An integer product above 2^53 may be rounded, but never below 2^53, so it equals no smaller one.
    """
    return 2 * largest(k, number) < EXACT and abs(target) < EXACT


# Meeting


def _meets(values: Values, target_P: Array, exact: bool) -> Iterator[tuple[int, int, Array]]:
    """(left mask, right mask, hits) for every way to split the operands in two.

    hits (left forms, right forms, problems): some `x op y` has the absolute value of the target (a candidate if not
    exact).
    """
    k = values.k
    whole_set = (1 << k) - 1
    goal = np.abs(target_P).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        for left in range(1, whole_set):
            right = whole_set & ~left
            size = left.bit_count()
            if size * 2 > k or (size * 2 == k and not left & 1):
                continue
            if size == 1:
                number = values.numbers_KP[left.bit_length() - 1].astype(np.float64)
                size_FP = np.abs(values.quotients(right))
                hits = np.zeros(size_FP.shape, dtype=bool)
                wanted = [goal + number, np.abs(goal - number), goal * number, goal / number]
                if exact or goal.all():  # infinite for a target of 0, and equal to no quotient
                    wanted.append(number / goal)
                for constant in wanted:
                    hits |= size_FP == constant if exact else _near(size_FP, constant)
                yield left, right, hits[None]
            else:
                yield left, right, _pair_hits(values, left, right, goal, exact)


def _near(x: Array, y: Array) -> Array:
    return np.abs(x - y) <= TOLERANCE * (np.abs(x) + np.abs(y))


def _pair_hits(values: Values, left: int, right: int, goal: Array, exact: bool) -> Array:
    """Which forms of two sets of at least two operands meet: compared as integers, or as floats if not exact."""
    if not exact:
        x, y = values.quotients(left)[:, None], values.quotients(right)[None, :]
        near_sum = np.minimum(np.abs(np.abs(x + y) - goal), np.abs(np.abs(x - y) - goal))
        hits = near_sum <= TOLERANCE * (np.abs(x) + np.abs(y) + goal)
        x, y = np.abs(x), np.abs(y)
        return hits | _near(x * y, goal) | _near(x, goal * y) | _near(y, goal * x)
    (xn, xd), (yn, yd) = values.terms[left], values.terms[right]
    xn, yn = xn[:, None], yn[None, :]
    xd, yd = np.ones_like(xn) if xd is None else xd[:, None], np.ones_like(yn) if yd is None else yd[None, :]
    p, q, below = xn * yd, yn * xd, np.abs(xd * yd) * goal
    hits = (np.abs(p + q) == below) | (np.abs(p - q) == below) | (np.abs(xn * yn) == below)
    p, q = np.abs(p), np.abs(q)
    # p and q are the numerators of x and y over one denominator; a divisor of zero is no hit: q == 0 needs p > 0
    hits |= (p == goal * q) & (q > 0)
    hits |= (q == goal * p) & (p > 0)
    return hits


def _candidates(numbers: tuple[int, ...], target: int, rules: Rules) -> Iterator[Node]:
    """Expressions over all `numbers` (ascending) whose value is exactly the target, as found by meeting."""
    if len(numbers) == 1:
        if numbers[0] == target:
            yield Node("number", target)
        return
    values = Values(np.array(numbers).reshape(-1, 1), rules.integers_only)
    exact = _is_exact(len(numbers), numbers[-1], target)
    for left, right, hits in _meets(values, np.array([target]), exact):
        a, b = (tuple(n for i, n in enumerate(numbers) if mask >> i & 1) for mask in (left, right))
        for i, j in zip(*np.nonzero(hits[..., 0]), strict=True):
            x, y = form(a, int(i)), form(b, int(j))
            joined = [combine(op, x, y) for op in (ADD, SUB, MUL, DIV)]
            for node in (*joined, combine(SUB, y, x), combine(DIV, y, x)):
                signed = node if _has_value(node, target, rules) else node.negative()
                if signed is not None and _has_value(signed, target, rules):
                    yield signed


def _has_value(node: Node, target: int, rules: Rules) -> bool:
    return node.value() == target and (not rules.integers_only or node.integral())


@lru_cache(maxsize=1 << 16)
def _solve_sorted(numbers: tuple[int, ...], target: int, rules: Rules) -> str | None:
    for chosen in _sub_multisets(numbers, rules):
        for node in _candidates(chosen, target, rules):
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
    """(problems,) bool for (problems, k) positive integers and (problems,) targets; k at most 6 (DataError)."""
    problems, k = numbers_PK.shape
    _checked(range(k))
    if not problems:
        return np.zeros(0, dtype=bool)
    simple = rules.use_all and k > 1 and _is_exact(k, int(numbers_PK.max()), int(np.abs(target_P).max()))
    if not simple or (target_P < 0).any():  # rare: one by one, with confirmation
        rows = zip(numbers_PK.tolist(), target_P.tolist(), strict=True)
        return np.array([is_solvable(Problem(tuple(numbers), target), rules) for numbers, target in rows])
    size = max(1, CHUNK_ELEMENTS // plan(k - 1).count)
    parts = [slice(start, start + size) for start in range(0, problems, size)]

    def part_of(part: slice) -> Array:
        values = Values(np.ascontiguousarray(numbers_PK[part].T), rules.integers_only)
        solved = np.zeros(values.problems, dtype=bool)
        for _, _, hits in _meets(values, target_P[part], exact=True):
            solved |= hits.any(axis=(0, 1))
        return solved

    return np.concatenate(list(_run(part_of, parts, workers)))


def _run(work, parts: list[slice], workers: int | None) -> Iterator[Array]:  # type: ignore[no-untyped-def]
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = min(available if workers is None else workers, len(parts))
    if threads <= 1:
        yield from map(work, parts)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(work, parts)


# Counting


def _counted_hits(values: Values, low: int, high: int, masks: tuple[Array, Array]) -> Iterator[tuple[Array, Array]]:
    """(problem indices, targets) of the countable expressions over all operands with an integer value in low..high."""
    own = plan(values.k)
    whole_set = (1 << values.k) - 1
    exact = _is_exact(values.k, values.greatest, max(abs(low), abs(high)))

    def hits(start: int, stop: int, n_FP: Array, d_FP: Array) -> Iterator[tuple[Array, Array]]:
        value_FP = values.result(n_FP, d_FP)
        whole_FP = np.rint(value_FP)
        good_FP = value_FP == whole_FP if exact else np.abs(value_FP - whole_FP) <= TOLERANCE * np.abs(value_FP)
        for sign, mask in zip((1, -1), masks, strict=True):
            signed_FP = sign * whole_FP
            forms, problems = np.nonzero(good_FP & (signed_FP >= low) & (signed_FP <= high) & mask[start:stop, None])
            targets = signed_FP[forms, problems].astype(np.int64)
            if not exact:
                true = [
                    int(n) == sign * int(t) * int(d)
                    for n, d, t in zip(n_FP[forms, problems], d_FP[forms, problems], targets, strict=True)
                ]
                problems, targets = problems[true], targets[true]
            yield problems, targets

    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        if values.k == 1:
            yield from hits(0, 1, values.numbers_KP, np.ones_like(values.numbers_KP))
        for block in own.blocks:
            n_FP, d_FP = values.block_fraction(whole_set, block)
            yield from hits(block.start, block.stop, n_FP, d_FP)
            if block.start >= own.sums + own.pure:
                yield from hits(block.start + own.mixed, block.stop + own.mixed, d_FP, n_FP)


@lru_cache(maxsize=1 << 12)
def _reachable_sorted(numbers: tuple[int, ...], low: int, high: int, rules: Rules) -> tuple[tuple[int, int], ...]:
    counts: dict[int, int] = {}
    for chosen in _sub_multisets(numbers, rules):
        values = Values(np.array(chosen).reshape(-1, 1), rules.integers_only)
        for _, targets in _counted_hits(values, low, high, counted(symbols_of(chosen))):
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
