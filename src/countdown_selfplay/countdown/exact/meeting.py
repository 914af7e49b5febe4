"""Meet-in-the-middle search for a target: every expression is `x op y` with x over some operands and y over the
others, so the forms of proper subsets suffice. If x is a single number, the values of y are compared with 5 constants.

Comparisons are exact, not tolerant, wherever all numbers involved are below 2^53 (`is_exact`: up to 5 operands of at
most 999, 6 of at most 406). Beyond that they are tolerant and every candidate is confirmed with Python's rationals."""

from collections.abc import Iterator, Sequence

import numpy as np

from ..rules import Rules
from .forms import ADD, DIV, MUL, SUB, Array, Node, combine, form
from .values import EXACT, Values, largest

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
    """Yield (left mask, right mask, hits) for every split of the operands in two, the smaller side of one of the
    sizes. hits (left forms, right forms, problems): whether some `x op y` has the absolute value of the target (a
    candidate only if not exact). The sign is irrelevant for targets of 0 and more: a negative value contains a
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
    """Return whether the expression is a solution, in exact arithmetic."""
    return node.value() == target and (not rules.integers_only or node.integral())
