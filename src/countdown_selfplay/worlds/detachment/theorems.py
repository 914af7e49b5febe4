"""All most general theorems up to a proof length, each with a shortest proof, and the shortest proof of any theorem
that has a short one.

A theorem is new at length n if a proof of n signs concludes it and no shorter one does: 3, 6, 15, 50, 139, 435, 1,420
and 4,495 at 1, 3, ..., 15. As a proof proves all instances of its conclusion, a theorem that is an instance of one of
a shorter proof is easier than that length; `hardest_at` leaves these out, which makes the length exact."""

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from typing import Any

from .checker import AXIOMS, detach
from .formulas import Formula

LONGEST = 15
"""Largest proof length of the enumeration, which takes two seconds."""


@cache
def most_general(length: int) -> dict[Formula, str]:
    """Return the new theorems of this length, with the first of their shortest proofs; {} for an even length."""
    if length == 1:
        return {formula: sign for sign, formula in AXIOMS.items()}
    theorems: dict[Formula, str] = {}
    shorter = [most_general(n) for n in range(1, length, 2)]
    for first in range(1, length - 1, 2) if length % 2 else ():
        for major, proof in most_general(first).items():
            for minor, other in most_general(length - 1 - first).items():
                made = detach(major, minor)
                if made is not None and made not in theorems and not any(made in level for level in shorter):
                    theorems[made] = f"D{proof}{other}"
    return theorems


@cache
def hardest_at(length: int) -> dict[Formula, str]:
    """Return those of `most_general` that no shorter proof proves."""
    return {f: proof for f, proof in most_general(length).items() if simplest(f, length - 2) is None}


@cache
def simplest(theorem: Formula, longest: int = LONGEST) -> tuple[Formula, str] | None:
    """Return a most general theorem of which `theorem` is an instance, with a shortest proof; None if no proof of at
    most `longest` symbols proves it."""
    matching = (matches(_tree(length), theorem) for length in range(1, longest + 1, 2))
    return next(chain.from_iterable(matching), None)


def shortest_proof(theorem: Formula, longest: int = LONGEST) -> str | None:
    """Return a shortest proof of a theorem, None if it has more than `longest` symbols."""
    proof = simplest(theorem, longest)
    return None if proof is None else proof[1]


_END = "end"


@cache
def _tree(length: int) -> dict[Any, Any]:
    return tree_of(most_general(length))


def tree_of(theorems: Mapping[Formula, str]) -> dict[Any, Any]:
    """Return theorems with their proofs as a discrimination tree: dictionaries by the symbols in Polish notation, with
    numbered variables, that all formulas with the same beginning share."""
    root: dict[Any, Any] = {}
    for formula, proof in theorems.items():
        numbers: dict[int, int] = {}
        node, todo = root, [len(formula.nodes) - 1]
        while todo:
            place = todo.pop()
            left, right = formula.nodes[place]
            if left < 0:
                sign: Any = numbers.setdefault(place, len(numbers))
            else:
                sign = "N" if right < 0 else "C"
                todo += [left] if right < 0 else [right, left]
            node = node.setdefault(sign, {})
        node[_END] = formula, proof
    return root


def matches(tree: dict[Any, Any], formula: Formula) -> Iterator[tuple[Formula, str]]:
    """Yield the theorems of a tree (`tree_of`) of which `formula` is an instance, with their proofs."""
    todo: list[tuple[dict[Any, Any], tuple[int, ...], tuple[int, ...]]] = [(tree, (len(formula.nodes) - 1,), ())]
    while todo:
        node, waiting, bound = todo.pop()
        if not waiting:
            yield node[_END]
            continue
        place, rest = waiting[-1], waiting[:-1]
        left, right = formula.nodes[place]
        for sign, below in node.items():
            if isinstance(sign, int):
                if sign == len(bound):
                    todo.append((below, rest, (*bound, place)))
                elif bound[sign] == place:
                    todo.append((below, rest, bound))
            elif left >= 0 and sign == ("N" if right < 0 else "C"):
                todo.append((below, (*rest, left) if right < 0 else (*rest, right, left), bound))
