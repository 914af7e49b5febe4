"""Inequivalent expressions over m operands ("forms"), each once: the plan by which the solver computes all of them,
their trees, and properties of their shapes that need no tree.

Two expressions are equivalent if they are the same rational function of distinct operands (OEIS A140606): order and
grouping within sums and within products do not matter, nor does moving a sign from one factor to another. So an
expression is an operand, a sum of at least two signed terms (operands or products), or a product of at least two
factors (operands or sums) with exponents +1 and -1. Forms are listed *up to sign*: of a form and its negative only one
is listed, and `flippable` tells whether the other can be written too (the negative of `a - b` is `b - a`; that of
`a + b` would need a leading sign).

The forms of a set S of operands are in one array of four parts, which larger sets use as contiguous slices:

    sums | pure products (all exponents +1) | mixed products | inverses of the mixed products
    \\_______________________ forms: terms and sums, which may follow a first term in a sum ___/
    \\_____________ products up to inversion, which may follow a first factor ____/

Uniqueness: the first term (factor) is the one that holds the least operand, with sign (exponent) +1; the rest is any
form (product up to inversion) of the other operands, added or subtracted (multiplied or divided)."""

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from itertools import combinations
from math import prod
from operator import attrgetter
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

ADD, SUB, MUL, DIV = "+", "-", "*", "/"


@dataclass(frozen=True)
class Block:
    """Forms `x op y`, x-major, for each x in left_slice of the forms over `left` and y in right_slice of those over
    `right`. left, right: masks of operand positions in the set. start, stop: range of the block in the array."""

    start: int
    stop: int
    shape: tuple[int, int]  # numbers of forms on the left and on the right
    op: str
    left: int
    left_slice: slice
    right: int
    right_slice: slice


@dataclass(frozen=True)
class Plan:
    """Layout of the forms over m operands: blocks of the first three parts, whose sizes are sums, pure and mixed."""

    m: int
    blocks: tuple[Block, ...]
    sums: int
    pure: int
    mixed: int

    @cached_property
    def up_to_inversion(self) -> int:
        """Number of forms before the inverses."""
        return self.sums + self.pure + self.mixed

    @cached_property
    def count(self) -> int:
        """Number of forms, up to sign."""
        return self.up_to_inversion + self.mixed

    @property
    def terms(self) -> slice:
        """Slice of the forms that can be a term of a sum: an operand or any product."""
        return slice(0, 1) if self.m == 1 else slice(self.sums, self.count)

    @property
    def factors(self) -> slice:
        """Slice of the forms that can be a factor of a product: an operand or a sum."""
        return slice(0, 1) if self.m == 1 else slice(0, self.sums)


@cache
def positions(mask: int) -> tuple[int, ...]:
    """Return the positions of the bits of `mask`, ascending."""
    return tuple(i for i in range(mask.bit_length()) if mask >> i & 1)


@cache
def plan(m: int) -> Plan:
    """Return the plan for m >= 1 operands. Numbers of forms for m = 1..6: 1, 5, 47, 733, 15907, 443825."""
    if m == 1:
        return Plan(1, (), sums=0, pure=1, mixed=0)
    splits = [
        (1 | sum(1 << i for i in chosen), size + 1)
        for size in range(m - 1)
        for chosen in combinations(range(1, m), size)
    ]
    blocks: list[Block] = []
    start = 0

    def add(op: str, left: int, left_slice: slice, right_slice: slice) -> None:
        nonlocal start
        shape = (left_slice.stop - left_slice.start, right_slice.stop - right_slice.start)
        stop = start + shape[0] * shape[1]
        if stop > start:
            blocks.append(Block(start, stop, shape, op, left, left_slice, (1 << m) - 1 & ~left, right_slice))
            start = stop

    for left, size in splits:
        for op in (ADD, SUB):
            add(op, left, plan(size).terms, slice(0, plan(m - size).count))
    sums = start
    for left, size in splits:
        rest = plan(m - size)
        add(MUL, left, plan(size).factors, slice(0, rest.sums + rest.pure))
    pure = start - sums
    for left, size in splits:
        rest = plan(m - size)
        add(MUL, left, plan(size).factors, slice(rest.sums + rest.pure, rest.up_to_inversion))
        add(DIV, left, plan(size).factors, slice(0, rest.up_to_inversion))
    return Plan(m, tuple(blocks), sums, pure, start - sums - pure)


@cache
def flippable(m: int) -> Array:
    """Return whether the negative of each form over m operands can be written without a leading sign, (count,)
    bool. A sum can be negated if one of its terms can, or if it has a plus and a minus; a product if one of
    its factors can."""
    forms = plan(m)
    flags_F = np.zeros(forms.count, dtype=bool)
    for block in forms.blocks:
        left = flippable(block.left.bit_count())[block.left_slice]
        right = flippable(block.right.bit_count())[block.right_slice]
        flags = np.ones((len(left), len(right)), dtype=bool) if block.op == SUB else left[:, None] | right[None, :]
        flags_F[block.start : block.stop] = flags.reshape(-1)
    flags_F[forms.up_to_inversion :] = flags_F[forms.sums + forms.pure : forms.up_to_inversion]
    return flags_F


@cache
def submask(mask: int, within: int) -> int:
    """Convert `mask`, whose bits count the positions in `within`, to a mask over the whole set of operands."""
    place = positions(within)
    return sum(1 << place[i] for i in positions(mask))


@dataclass(frozen=True)
class Node:
    """Node of an expression tree. kind: "number" (value `number`), "sum" or "product". parts: pairs of +1 or -1, the
    sign of a term or the exponent of a factor, and a node of another kind; at least one pair has +1."""

    kind: str
    number: int = 0
    parts: tuple[tuple[int, "Node"], ...] = ()

    def value(self) -> Fraction | None:
        """Return the exact value, or None for a division by zero."""
        try:
            return self._exact()
        except ZeroDivisionError:
            return None

    def _exact(self) -> Fraction:
        if self.kind == "number":
            return Fraction(self.number)
        if self.kind == "sum":
            return sum((sign * node._exact() for sign, node in self.parts), Fraction(0))
        return prod((node._exact() ** sign for sign, node in self.parts), start=Fraction(1))

    def integral(self) -> bool:
        """Return whether no division leaves a remainder when each product is computed numerators first."""
        value = self.value()
        return value is not None and value.denominator == 1 and all(node.integral() for _, node in self.parts)

    def negative(self) -> "Node | None":
        """Return a tree with the opposite value, or None if that needs a leading sign."""
        if self.kind == "number":
            return None
        parts = [(-sign, node) for sign, node in self.parts] if self.kind == "sum" else list(self.parts)
        if self.kind == "sum" and any(sign > 0 for sign, _ in parts):
            return Node("sum", parts=tuple(parts))
        for i, (sign, node) in enumerate(self.parts):
            other = node.negative()
            if other is not None:
                parts[i] = (sign, other)  # in a sum -(-x) with its plus, in a product -x with its exponent
                return Node(self.kind, parts=tuple(parts))
        return None

    def text(self) -> str:
        """Return the usual notation: numerators and positive terms first, only necessary parentheses."""
        if self.kind == "number":
            return str(self.number)
        plus, minus = (ADD, SUB) if self.kind == "sum" else (MUL, DIV)
        ordered = sorted(self.parts, key=lambda part: -part[0])
        texts = [node.text() for _, node in ordered]
        if self.kind == "product":
            texts = [
                f"({text})" if node.kind == "sum" else text for (_, node), text in zip(ordered, texts, strict=True)
            ]
        signs = ["" if i == 0 else f" {plus if sign > 0 else minus} " for i, (sign, _) in enumerate(ordered)]
        return "".join(sign + text for sign, text in zip(signs, texts, strict=True))


def combine(op: str, left: Node, right: Node) -> Node:
    """Return the tree of `left op right`; sums within sums and products within products are merged."""
    kind = "sum" if op in (ADD, SUB) else "product"
    sign = 1 if op in (ADD, MUL) else -1
    first = left.parts if left.kind == kind else ((1, left),)
    second = right.parts if right.kind == kind else ((1, right),)
    return Node(kind, parts=(*first, *((sign * other, node) for other, node in second)))


def form(numbers: tuple[int, ...], index: int) -> Node:
    """Return the tree of the form with this index in the plan, over `numbers`."""
    if len(numbers) == 1:
        return Node("number", numbers[0])
    forms = plan(len(numbers))
    if index >= forms.up_to_inversion:
        mixed = form(numbers, index - forms.mixed)
        return Node("product", parts=tuple((-exponent, node) for exponent, node in mixed.parts))
    block = forms.blocks[bisect_right(forms.blocks, index, key=attrgetter("start")) - 1]
    left, right = divmod(index - block.start, block.shape[1])
    return combine(
        block.op,
        form(tuple(numbers[i] for i in positions(block.left)), block.left_slice.start + left),
        form(tuple(numbers[i] for i in positions(block.right)), block.right_slice.start + right),
    )


ADD_BIT, SUB_BIT, MUL_BIT, DIV_BIT = 1, 2, 4, 8


COLUMNS = [
    *("depth", "nodes", "parentheses", "first", "second"),
    *("inner", "negative_inner", "operators", "negative_operators"),
]
"""Columns of `shapes`. depth: of the tree, 0 for a number. nodes: number of sums and products. parentheses: number of
necessary pairs. first, second: number of parts with sign or exponent +1 and -1. inner, negative_inner: operator
bits within the form's parts, and within those of its negative. operators, negative_operators: the same with the
outermost operators. Depth, nodes and parentheses are equal for the negative, which differs only in signs. The
`negative_` columns are undefined for forms whose negative cannot be written."""


def _bit(condition: Array, bit: int) -> Array:
    return np.where(condition, np.uint8(bit), np.uint8(0))


@cache
def shapes(m: int) -> Array:
    """Return COLUMNS of all forms over m operands: a structured array, (count,), of uint8."""
    forms = plan(m)
    table = np.zeros(forms.count, dtype=[(name, np.uint8) for name in COLUMNS])
    for block in forms.blocks:
        left_m, right_m = block.left.bit_count(), block.right.bit_count()
        x, y = shapes(left_m)[block.left_slice, None], shapes(right_m)[block.right_slice]
        is_sum = block.op in (ADD, SUB)
        kind = _kinds(right_m)[block.right_slice]  # 0 a number, 1 a sum, 2 a product
        joins = kind == (1 if is_sum else 2)
        to_first, to_second = (y["first"], y["second"]) if block.op in (ADD, MUL) else (y["second"], y["first"])
        alone = np.uint8(block.op in (ADD, MUL))
        one = np.uint8(1)
        columns = {
            "depth": np.maximum(one + x["depth"], np.where(joins, y["depth"], one + y["depth"])),
            "nodes": x["nodes"] + y["nodes"] + ~joins,
            "first": one + np.where(joins, to_first, alone) + 0 * x["depth"],
            "second": np.where(joins, to_second, one - alone) + 0 * x["depth"],
            "inner": x["operators"] | np.where(joins, y["inner"], y["operators"]),
        }
        sums_within = 0 if is_sum else np.uint8(left_m > 1) + (kind == 1)  # a factor of several operands is a sum
        columns["parentheses"] = x["parentheses"] + y["parentheses"] + sums_within
        # If no sign is a minus, the first part with a negative is negated.
        turns = flippable(left_m)[block.left_slice][:, None]
        negative_right = np.where(joins, y["negative_inner"], y["negative_operators"])
        right = np.where(joins, y["inner"], y["operators"])
        through_a_part = np.where(turns, x["negative_operators"] | right, x["operators"] | negative_right)
        signs_turn = is_sum & (columns["second"] > 0)
        columns["negative_inner"] = np.where(signs_turn, columns["inner"], through_a_part)
        for name, values in columns.items():
            table[name][block.start : block.stop] = values.reshape(-1)
    # The inverses of the mixed products have the same parts with opposite exponents.
    mixed, inverse = slice(forms.sums + forms.pure, forms.up_to_inversion), slice(forms.up_to_inversion, forms.count)
    table[inverse] = table[mixed]
    table["first"][inverse], table["second"][inverse] = table["second"][mixed], table["first"][mixed]
    _add_own_operators(table, forms)
    return table


@cache
def _kinds(m: int) -> Array:
    """Return the type of each form over m operands, (count,): 0 a number, 1 a sum, 2 a product."""
    forms = plan(m)
    if m == 1:
        return np.zeros(1, dtype=np.uint8)
    return np.repeat(np.array([1, 2], dtype=np.uint8), [forms.sums, forms.count - forms.sums])


def _add_own_operators(table: Array, forms: Plan) -> None:
    """Add the outermost operators to `table`: + (*) for a part after the first with +1, - (/) for a part with -1."""
    sums, products = slice(0, forms.sums if forms.m > 1 else 0), slice(forms.sums if forms.m > 1 else 1, forms.count)
    table["operators"][:] = table["inner"]
    table["negative_operators"][:] = table["negative_inner"]
    first, second = table["first"][sums], table["second"][sums]
    table["operators"][sums] |= _bit(first > 1, ADD_BIT) | _bit(second > 0, SUB_BIT)
    # With a minus all signs change; otherwise all but that of the negated part.
    plus_after = np.where(second > 0, second, 1)
    table["negative_operators"][sums] |= _bit(plus_after > 1, ADD_BIT) | np.uint8(SUB_BIT)
    own_bits = _bit(table["first"][products] > 1, MUL_BIT) | _bit(table["second"][products] > 0, DIV_BIT)
    table["operators"][products] |= own_bits
    table["negative_operators"][products] |= own_bits
