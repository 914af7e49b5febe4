"""Every way to write a solution of two or three numbers: the answers that the warm start shows the prover."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import permutations
from typing import NamedTuple

_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}


class Written(NamedTuple):
    """An expression: its exact value, its text with single spaces between tokens, and its outermost operator or ""."""

    value: Fraction
    text: str
    operator: str


def written_forms(numbers: Iterable[int]) -> Iterator[Written]:
    """Every ordered binary tree over `numbers`, each used once. Texts may repeat; meant for at most three numbers."""
    for order in sorted(set(permutations(numbers))):
        yield from _trees(order)


def solutions_by_target(numbers: Iterable[int], low: int, high: int) -> dict[int, list[str]]:
    """Whole targets in [low, high] that `numbers` reach -> the distinct texts that do so, sorted."""
    found: dict[int, set[str]] = {}
    for form in written_forms(numbers):
        if form.value.denominator == 1 and low <= form.value <= high:
            found.setdefault(int(form.value), set()).add(form.text)
    return {target: sorted(texts) for target, texts in sorted(found.items())}


def _trees(order: tuple[int, ...]) -> Iterator[Written]:
    if len(order) == 1:
        yield Written(Fraction(order[0]), str(order[0]), "")
        return
    for cut in range(1, len(order)):
        for left in _trees(order[:cut]):
            for right in _trees(order[cut:]):
                for operator in _PRECEDENCE:
                    if operator != "/" or right.value != 0:
                        yield _combine(left, operator, right)


def _combine(left: Written, operator: str, right: Written) -> Written:
    """Parentheses only where the tree needs them; `a + ( b - c )` keeps its own, one more way to write the value."""
    rank = _PRECEDENCE[operator]
    left_text, right_text = left.text, right.text
    if left.operator and _PRECEDENCE[left.operator] < rank:
        left_text = f"( {left_text} )"
    if right.operator:
        same = operator == right.operator and operator in "+*"
        if _PRECEDENCE[right.operator] < rank or (_PRECEDENCE[right.operator] == rank and not same):
            right_text = f"( {right_text} )"
    if operator == "+":
        value = left.value + right.value
    elif operator == "-":
        value = left.value - right.value
    elif operator == "*":
        value = left.value * right.value
    else:
        value = left.value / right.value
    return Written(value, f"{left_text} {operator} {right_text}", operator)
