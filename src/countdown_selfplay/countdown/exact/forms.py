"""Every inequivalent expression over m operands, once: the plan by which the solver computes them all.

Two expressions are equivalent if they are the same rational function of distinct operands (OEIS A140606): order and
grouping within sums and within products do not matter, nor does moving a sign from one factor to another. So an
expression is an operand, a sum of at least two signed terms (operands or products), or a product of at least two
factors (operands or sums) with exponents +1 and -1. Forms are listed *up to sign*: of a form and its negative only one
is listed, and `flippable` says whether the other can be written too (`a - b` can be turned into `b - a`, `a + b` into
nothing).

The forms of a set S of operands stand in one array of four parts, because later sets use its parts as they are:

    sums | pure products (all exponents +1) | mixed products | inverses of the mixed products
    \\________________________ forms: terms and sums, what may follow a first term in a sum ___/
    \\______________ products up to inversion, what may follow a first factor ____/

Uniqueness: the first term (factor) is the one that holds the least operand, with sign (exponent) +1; the rest is any
form (product up to inversion) of the other operands, added or subtracted (multiplied or divided).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations

import numpy as np

ADD, SUB, MUL, DIV = "+", "-", "*", "/"


@dataclass(frozen=True)
class Block:
    """The forms `x op y` for x in left_slice of the forms of the operands in `left`, y likewise, x-major.

    `left` and `right` are masks of operand positions within the set; `start` and `stop`: the block's place in the
    array.
    """

    start: int
    stop: int
    shape: tuple[int, int]  # forms on the left, and on the right
    op: str
    left: int
    left_slice: slice
    right: int
    right_slice: slice


@dataclass(frozen=True)
class Plan:
    """Forms of m operands: the blocks of the first three parts, and where the parts end."""

    m: int
    blocks: tuple[Block, ...]
    sums: int
    pure: int
    mixed: int

    @cached_property
    def up_to_inversion(self) -> int:
        """Forms before the inverses."""
        return self.sums + self.pure + self.mixed

    @cached_property
    def count(self) -> int:
        """All forms, up to sign."""
        return self.up_to_inversion + self.mixed

    @property
    def terms(self) -> slice:
        """What may be a term of a sum: an operand or any product."""
        return slice(0, 1) if self.m == 1 else slice(self.sums, self.count)

    @property
    def factors(self) -> slice:
        """What may be a factor of a product: an operand or a sum."""
        return slice(0, 1) if self.m == 1 else slice(0, self.sums)


@cache
def positions(mask: int) -> tuple[int, ...]:
    """The positions of the bits of `mask`, ascending."""
    return tuple(i for i in range(mask.bit_length()) if mask >> i & 1)


@cache
def plan(m: int) -> Plan:
    """The plan for m >= 1 operands. Counts up to sign, m = 1..6: 1, 5, 47, 733, 15907, 443825."""
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
def flippable(m: int) -> np.ndarray:
    """(count,) bool: whether the negative of a form can be written without a sign in front of an expression.

    A sum can be negated if one of its terms can, or if it holds a plus and a minus; a product if one of its factors
    can.
    """
    own = plan(m)
    flags_F = np.zeros(own.count, dtype=bool)
    for block in own.blocks:
        left = flippable(block.left.bit_count())[block.left_slice]
        right = flippable(block.right.bit_count())[block.right_slice]
        flags = np.ones((len(left), len(right)), dtype=bool) if block.op == SUB else left[:, None] | right[None, :]
        flags_F[block.start : block.stop] = flags.reshape(-1)
    flags_F[own.up_to_inversion :] = flags_F[own.sums + own.pure : own.up_to_inversion]
    return flags_F


@cache
def submask(mask: int, within: int) -> int:
    """The mask over the whole set of what `mask` selects among the positions of `within`."""
    place = positions(within)
    return sum(1 << place[i] for i in positions(mask))
