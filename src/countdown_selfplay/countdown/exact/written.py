"""Enumeration of the ways to write an expression over two or three numbers, including the order of operands."""

import operator
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import permutations
from typing import NamedTuple

_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}
_VALUE = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


class Written(NamedTuple):
    """Written expression: exact value, text with single spaces between tokens, and outermost operator ("": none)."""

    value: Fraction
    text: str
    operator: str


def written_forms(numbers: Iterable[int], orders: Iterable[tuple[int, ...]] | None = None) -> Iterator[Written]:
    """Yield every ordered binary tree over `numbers`, each used once. orders: only these orders of the numbers. Texts
    may repeat; meant for at most three numbers, or a few orders of four, which have 320 trees each."""
    for order in sorted(set(permutations(numbers))) if orders is None else orders:
        yield from _trees(order)


def _trees(order: tuple[int, ...]) -> Iterator[Written]:
    if len(order) == 1:
        yield Written(Fraction(order[0]), str(order[0]), "")
        return
    for cut in range(1, len(order)):
        for left in _trees(order[:cut]):
            for right in _trees(order[cut:]):
                for sign in _PRECEDENCE:
                    if sign != "/" or right.value != 0:
                        yield combined(left, sign, right)


def combined(left: Written, sign: str, right: Written) -> Written:
    """Join two expressions with only the necessary parentheses, and those of `a + ( b - c )`."""
    rank = _PRECEDENCE[sign]
    left_text, right_text = left.text, right.text
    if left.operator and _PRECEDENCE[left.operator] < rank:
        left_text = f"( {left_text} )"
    if right.operator:
        same = sign == right.operator and sign in "+*"
        if _PRECEDENCE[right.operator] < rank or (_PRECEDENCE[right.operator] == rank and not same):
            right_text = f"( {right_text} )"
    return Written(_VALUE[sign](left.value, right.value), f"{left_text} {sign} {right_text}", sign)
