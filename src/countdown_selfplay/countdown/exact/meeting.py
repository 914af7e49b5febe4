"""Deciding a target by meeting: every expression is `x op y` with x over some operands and y over the others, so the
forms of proper subsets suffice. Where one side is a single number it is one look for five constants.

Counting looks at all forms of the whole set, each of which is one inequivalent expression. When numbers repeat some
are the same: with 3, 3 and 8 the form `a - b + c` is written twice. Equal numbers are interchangeable, everything else
of the equivalence of forms.py stays: `8 + 3 - 3` and `8 * 3 / 3` are two solutions. Two signed forms are the same if
their hashes are, where the hash of a sum is a commutative function of its signed terms, that of a product of its
factors, exponents and overall sign. The hashes are fixed 64-bit functions; a test compares them with explicit trees.

Comparisons are exact, not tolerant, wherever all numbers involved are below 2^53 (`is_exact`: up to 5 operands of at
most 999, 6 of at most 406). Beyond that they are tolerant and every candidate is confirmed with Python's rationals."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..rules import Rules
from .forms import ADD, DIV, MUL, SUB, Array, Node, combine, flippable, form, plan, positions, submask
from .values import EXACT, Values, largest


def mix(x: Array) -> Array:
    """Return the finalizer of SplitMix64 (Steele, Lea, Flood 2014), a bijection of 64-bit integers."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


_NUMERATOR, _DENOMINATOR, _TERM, _ATOM, _SUM = (np.uint64(0x9E3779B97F4A7C15 * i % 2**64) for i in range(1, 6))
_SIGNS = mix(np.arange(101, 104, dtype=np.uint64))  # of a product: -1, 0 (equal to its own negative), +1


class _Hashes:
    """Hashes of each form and its negative; as terms of a sum (both signs); as factors (exponent +1, -1; sign)."""

    def __init__(self, count: int) -> None:
        self.plus, self.minus, self.term_plus, self.term_minus, self.up, self.down = np.zeros((6, count), np.uint64)
        self.sign = np.zeros(count, dtype=np.int64)

    def set_factor(self, part: slice) -> None:
        key = np.minimum(self.plus[part], self.minus[part])
        self.up[part] = mix(key + _NUMERATOR)
        self.down[part] = mix(key + _DENOMINATOR)
        self.sign[part] = np.where(self.plus[part] == self.minus[part], 0, np.where(self.plus[part] == key, 1, -1))

    def set_product(self, part: slice) -> None:
        self.plus[part] = mix(self.up[part] + _SIGNS[1 + self.sign[part]])
        self.minus[part] = mix(self.up[part] + _SIGNS[1 - self.sign[part]])
        self.set_term(part)

    def set_term(self, part: slice) -> None:
        self.term_plus[part] = mix(self.plus[part] + _TERM)
        self.term_minus[part] = mix(self.minus[part] + _TERM)


def _hashes(symbols: tuple[int, ...]) -> _Hashes:
    """Return the hashes of all forms over operands; operands with one symbol are equal."""
    done: dict[int, _Hashes] = {}
    k = len(symbols)
    for mask in sorted(range(1, 1 << k), key=int.bit_count):
        where = positions(mask)
        forms = plan(len(where))
        hashes = done[mask] = _Hashes(forms.count)
        if len(where) == 1:
            symbol = np.array([symbols[where[0]]], dtype=np.uint64)
            hashes.plus[:], hashes.minus[:] = mix(mix(symbol + _ATOM)), mix(mix(symbol + _ATOM) + _SUM)
            hashes.set_factor(slice(0, 1))
            hashes.set_term(slice(0, 1))
            continue
        for block in forms.blocks:
            part = slice(block.start, block.stop)
            x, y = done[submask(block.left, mask)], done[submask(block.right, mask)]
            i, j = block.left_slice, block.right_slice
            if block.op in (ADD, SUB):
                same, other = (y.term_plus, y.term_minus) if block.op == ADD else (y.term_minus, y.term_plus)
                hashes.term_plus[part] = (x.term_plus[i, None] + same[None, j]).reshape(-1)
                hashes.term_minus[part] = (x.term_minus[i, None] + other[None, j]).reshape(-1)
                hashes.plus[part] = mix(hashes.term_plus[part] + _SUM)
                hashes.minus[part] = mix(hashes.term_minus[part] + _SUM)
                hashes.set_factor(part)
            else:
                up, down = (y.up, y.down) if block.op == MUL else (y.down, y.up)
                hashes.up[part] = (x.up[i, None] + up[None, j]).reshape(-1)
                hashes.down[part] = (x.down[i, None] + down[None, j]).reshape(-1)
                hashes.sign[part] = (x.sign[i, None] * y.sign[None, j]).reshape(-1)
                hashes.set_product(part)
        mixed = slice(forms.sums + forms.pure, forms.up_to_inversion)
        inverse = slice(forms.up_to_inversion, forms.count)
        hashes.up[inverse], hashes.down[inverse] = hashes.down[mixed], hashes.up[mixed]
        hashes.sign[inverse] = hashes.sign[mixed]
        hashes.set_product(inverse)
    return done[(1 << k) - 1]


@lru_cache(maxsize=64)
def counted(symbols: tuple[int, ...]) -> tuple[Array, Array]:
    """Return two (count,) masks over the forms of these operands: those to count, and those whose negative counts. Of
    equal signed forms the first is counted. `symbols`: equal for equal numbers, e.g. (0, 0, 1) for 3, 3, 8."""
    flips = flippable(len(symbols))
    if len(set(symbols)) == len(symbols):
        return np.ones(len(flips), dtype=bool), flips
    hashes = _hashes(symbols)
    _, first = np.unique(np.concatenate([hashes.plus, hashes.minus[flips]]), return_index=True)
    chosen = np.zeros(len(flips) + int(flips.sum()), dtype=bool)
    chosen[first] = True
    negatives = np.zeros(len(flips), dtype=bool)
    negatives[flips] = chosen[len(flips) :]
    return chosen[: len(flips)], negatives


def symbols_of(ordered: tuple[int, ...]) -> tuple[int, ...]:
    """Return the pattern of equal numbers of an ascending tuple: (3, 3, 8) -> (0, 0, 1)."""
    seen = sorted(set(ordered))
    return tuple(seen.index(number) for number in ordered)


TOLERANCE = 1e-12
"""Relative tolerance of candidates, which exact arithmetic then confirms."""

SLICE_ELEMENTS = 1 << 14
"""Values per slice: they and their temporaries fit into the first two levels of cache."""

Bound = int | Array


class Hits(NamedTuple):
    """One entry per expression: its problem, its value, its form, and whether it is the form's negative."""

    problems: Array
    targets: Array
    forms: Array
    negated: Array


def is_exact(k: int, number: int, target: int) -> bool:
    """Return whether every comparison over k operands of at most `number` is exact (bounds: values.py). Both sides are
    integers. Sums of two products of degree k - 1, and products of numerators, are at most twice `largest(k, number)`,
    thus exact. The other side, the target times a denominator, may be rounded above 2^53, but never to below 2^53, so
    that it equals nothing smaller."""
    return 2 * largest(k, number) < EXACT and abs(target) < EXACT


def phases(k: int) -> list[tuple[int, tuple[int, ...]]]:
    """Return the order of the splits: (largest necessary subset, sizes of the smaller side). From five operands on,
    splits without a single number come first: they need much smaller subsets and settle most solvable problems."""
    return [(k - 1, (1, 2))] if k < 5 else [(k - 2, (2, 3)), (k - 1, (1,))]


def meets(values: Values, target_P: Array, exact: bool, sizes: Sequence[int]) -> Iterator[tuple[int, int, Array]]:
    """Yield (left mask, right mask, hits) for every split of the operands in two, the smaller side of one of the
    sizes. hits (left forms, right forms, problems): some `x op y` has the absolute value of the target; a
    candidate if not exact. The sign is irrelevant for targets of 0 and more: a negative value contains a
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
    """Return which forms y of the other operands meet the number a: |y| is T + a, |T - a|, T a, T / a or a / T. Both y
    and the constant are correctly rounded quotients of exact integers, so that equal values compare equal; unequal
    ones differ by far more than a rounding while numerators are below 2^52."""
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
    """Return |x - y| <= 2 TOLERANCE |y|, for y of 0 and more, by two comparisons: called on millions of x."""
    margin = 2 * TOLERANCE
    return (x >= y * (1 - margin)) & (x <= y * (1 + margin))


def _pair_hits(values: Values, left: int, right: int, goal: Array, exact: bool) -> Array:
    """Return which forms of two sets of at least two operands meet, compared as integers, else as floats."""
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


def hits(values: Values, ordered_PK: Array, symbols: tuple[int, ...], low: Bound, high: Bound, rules: Rules) -> Hits:
    """Return every countable expression over all operands with an integer value from `low` to `high`: for all
    problems, or (problems,) one for each. values: of the whole set, for these numbers. ordered_PK: (problems, k), each
    row ascending and with equal numbers where `symbols` (of `symbols_of`) are equal."""
    most = np.maximum(np.abs(low), np.abs(high))
    least = np.where((np.less_equal(low, 0)) & (np.greater_equal(high, 0)), 0, np.minimum(np.abs(low), np.abs(high)))
    exact = is_exact(values.k, values.greatest, int(most.max(initial=0)))
    places, wholes = [], []
    with np.errstate(invalid="ignore"):
        for start, value_FP in values.quotients_of_all(SLICE_ELEMENTS):
            whole_FP = np.rint(value_FP)
            if exact:
                good_FP = whole_FP == value_FP
                np.abs(value_FP, out=value_FP)
                good_FP &= value_FP >= least
                good_FP &= value_FP <= most
            else:
                good_FP = np.abs(value_FP - whole_FP) <= TOLERANCE * np.abs(value_FP)
                good_FP &= (np.abs(whole_FP) >= least) & (np.abs(whole_FP) <= most)
            place = np.flatnonzero(good_FP)
            wholes.append(whole_FP.reshape(-1)[place].astype(np.int64))
            places.append(place + start * values.problems)
    flat, targets = np.concatenate(places), np.concatenate(wholes)
    forms, problems = np.divmod(flat, values.problems)
    chosen_of_signs = []
    for sign, mask in zip((1, -1), counted(symbols), strict=True):
        least_of, most_of = (bound if isinstance(bound, int) else bound[problems] for bound in (low, high))
        chosen = mask[forms] & (sign * targets >= least_of) & (sign * targets <= most_of)
        if not exact:
            chosen[chosen] = [
                # Its negative, which may be the one that counts, has then exactly the other value.
                has_value(form(tuple(ordered_PK[p].tolist()), int(f)), int(t), rules)
                for f, p, t in zip(forms[chosen], problems[chosen], targets[chosen], strict=True)
            ]
        chosen_of_signs.append(chosen)
    plus, minus = chosen_of_signs
    return Hits(
        np.concatenate([problems[plus], problems[minus]]), np.concatenate([targets[plus], -targets[minus]]),
        np.concatenate([forms[plus], forms[minus]]), np.repeat([False, True], [plus.sum(), minus.sum()]),
    )  # fmt: skip
