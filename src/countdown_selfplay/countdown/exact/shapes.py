"""The shape of every form of the plan, without building its tree: operators, depth, nodes, parentheses.

None of these depends on the operands, so one table per operand count serves every problem. A table is made block by
block from those of fewer operands, as the values are (forms.py): `x op y` with y of the same kind joins y's parts,
with y of another kind takes y as one part.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from .forms import ADD, MUL, SUB, Plan, flippable, plan
from .values import Array

ADD_BIT, SUB_BIT, MUL_BIT, DIV_BIT = 1, 2, 4, 8


COLUMNS = [
    *("depth", "nodes", "parentheses", "first", "second"),
    *("inner", "negative_inner", "operators", "negative_operators"),
]
"""Per form. depth: of the tree, 0 for a number. nodes: its sums and products. parentheses: pairs that writing it
takes. first, second: its parts with sign or exponent +1 and -1. inner, negative_inner: bits of the operators within
its parts, and within those of its negative. operators, negative_operators: the same with its own.

Depth, nodes and parentheses are those of the negative too: only signs change. Entries of `negative_...` say nothing
where a form has no negative.
"""


def _bit(condition: Array, bit: int) -> Array:
    return np.where(condition, np.uint8(bit), np.uint8(0))


@cache
def shapes(m: int) -> Array:
    """The table for m operands: (count,) uint8 in each of COLUMNS."""
    own = plan(m)
    found = np.zeros(own.count, dtype=[(name, np.uint8) for name in COLUMNS])
    for block in own.blocks:
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
        # A negative without a minus among its signs to turn round: of the first part that has one itself.
        turns = flippable(left_m)[block.left_slice][:, None]
        negative_right = np.where(joins, y["negative_inner"], y["negative_operators"])
        right = np.where(joins, y["inner"], y["operators"])
        through_a_part = np.where(turns, x["negative_operators"] | right, x["operators"] | negative_right)
        signs_turn = is_sum & (columns["second"] > 0)
        columns["negative_inner"] = np.where(signs_turn, columns["inner"], through_a_part)
        for name, values in columns.items():
            found[name][block.start : block.stop] = values.reshape(-1)
    # The inverses of the mixed products: the same parts, with the exponents turned round.
    mixed, inverse = slice(own.sums + own.pure, own.up_to_inversion), slice(own.up_to_inversion, own.count)
    found[inverse] = found[mixed]
    found["first"][inverse], found["second"][inverse] = found["second"][mixed], found["first"][mixed]
    _add_own_operators(found, own)
    return found


@cache
def _kinds(m: int) -> Array:
    """Per form: 0 a number, 1 a sum, 2 a product."""
    own = plan(m)
    if m == 1:
        return np.zeros(1, dtype=np.uint8)
    return np.repeat(np.array([1, 2], dtype=np.uint8), [own.sums, own.count - own.sums])


def _add_own_operators(table: Array, own: Plan) -> None:
    """A second part with sign or exponent +1 takes a `+` or `*`, one with -1 a `-` or `/`."""
    sums, products = slice(0, own.sums if own.m > 1 else 0), slice(own.sums if own.m > 1 else 1, own.count)
    table["operators"][:] = table["inner"]
    table["negative_operators"][:] = table["negative_inner"]
    first, second = table["first"][sums], table["second"][sums]
    table["operators"][sums] |= _bit(first > 1, ADD_BIT) | _bit(second > 0, SUB_BIT)
    # With a minus among them all signs turn; otherwise all but one do, and that part is its own negative.
    plus_after = np.where(second > 0, second, 1)
    table["negative_operators"][sums] |= _bit(plus_after > 1, ADD_BIT) | np.uint8(SUB_BIT)
    own_bits = _bit(table["first"][products] > 1, MUL_BIT) | _bit(table["second"][products] > 0, DIV_BIT)
    table["operators"][products] |= own_bits
    table["negative_operators"][products] |= own_bits
