"""Forms as trees: from an index of the plan to a tree, its exact value, its negative and its text."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from operator import attrgetter

from .forms import ADD, DIV, MUL, SUB, plan, positions


@dataclass(frozen=True)
class Node:
    """kind "number": `number`. "sum" or "product": parts (sign or exponent, +1 or -1; node), never nested in their own
    kind; a sum has a plus, a product has an exponent +1."""

    kind: str
    number: int = 0
    parts: tuple[tuple[int, Node], ...] = ()

    def value(self) -> Fraction | None:
        """The exact value, or None if something is divided by zero."""
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
        """Whether every division comes out even when products are computed numerators first, as `text` writes them."""
        value = self.value()
        return value is not None and value.denominator == 1 and all(node.integral() for _, node in self.parts)

    def negative(self) -> Node | None:
        """A node of the opposite value, or None if it would need a sign in front of an expression."""
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
        """As people write it: numerators and positive terms first, parentheses only where they are needed."""
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
    """`left op right`, flattened."""
    kind = "sum" if op in (ADD, SUB) else "product"
    sign = 1 if op in (ADD, MUL) else -1
    first = left.parts if left.kind == kind else ((1, left),)
    second = right.parts if right.kind == kind else ((1, right),)
    return Node(kind, parts=(*first, *((sign * other, node) for other, node in second)))


def form(numbers: tuple[int, ...], index: int) -> Node:
    """Form number `index` of the plan over `numbers`."""
    if len(numbers) == 1:
        return Node("number", numbers[0])
    own = plan(len(numbers))
    if index >= own.up_to_inversion:
        mixed = form(numbers, index - own.mixed)
        return Node("product", parts=tuple((-exponent, node) for exponent, node in mixed.parts))
    block = own.blocks[bisect_right(own.blocks, index, key=attrgetter("start")) - 1]
    left, right = divmod(index - block.start, block.shape[1])
    return combine(
        block.op,
        form(tuple(numbers[i] for i in positions(block.left)), block.left_slice.start + left),
        form(tuple(numbers[i] for i in positions(block.right)), block.right_slice.start + right),
    )
