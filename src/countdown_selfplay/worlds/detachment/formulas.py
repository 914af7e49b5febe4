"""Formulas of implication and negation in Polish notation: CpCqp is p -> (q -> p), Np is not p.

A formula is a list of its distinct subformulas, each after its parts, in the order in which they end when it is read.
Variables have no names there, so equal lists are formulas equal up to renaming, and a formula whose text is
exponentially long is as short as the steps that made it."""

from dataclasses import dataclass
from functools import cached_property

from ...contract.game import Proposal

LETTERS = "pqrstuvwxyzabcdefghijklmno"
"""Variables, in the order in which a formula first names them."""

Node = tuple[int, int]
VARIABLE: Node = (-1, -1)
"""Node of a variable; other nodes are the indices of their two parts (C), or of one part and -1 (N)."""

MOST_SYMBOLS = 1000
"""Largest length of a text that is read as a formula."""
MOST_VARIABLES = 12
"""Largest number of variables for `is_tautology`: 4,096 rows of its truth table."""


@dataclass(frozen=True)
class Formula:
    """Formula up to renaming of its variables."""

    nodes: tuple[Node, ...]

    @cached_property
    def symbols(self) -> int:
        """Length of its text, which may be too long to write."""
        counts: list[int] = []
        for left, right in self.nodes:
            counts.append(1 + (counts[left] if left >= 0 else 0) + (counts[right] if right >= 0 else 0))
        return counts[-1]

    @cached_property
    def variables(self) -> int:
        return self.nodes.count(VARIABLE)

    @cached_property
    def depth(self) -> int:
        """Largest number of connectives around a variable."""
        depths: list[int] = []
        for left, right in self.nodes:
            depths.append(1 + max(depths[left], depths[right] if right >= 0 else 0) if left >= 0 else 0)
        return depths[-1]

    def __str__(self) -> str:
        """Return Polish notation, variables p, q, r, ... in the order of their appearance; for formulas
        of few symbols."""
        texts: list[str] = []
        named = 0
        for left, right in self.nodes:
            if left < 0:
                texts.append(LETTERS[named] if named < len(LETTERS) else f"<{named}>")
                named += 1
            else:
                texts.append(f"N{texts[left]}" if right < 0 else f"C{texts[left]}{texts[right]}")
        return texts[-1]


def read(text: object) -> Proposal:
    """Read a text as a formula, ignoring white space: a Proposal with the formula, or with None and the reason:
    no_formula (another symbol, or an empty text), unbalanced (parts are missing, or text follows), too_long. Never
    raises."""
    signs = "".join(text.split()) if isinstance(text, str) else ""
    if len(signs) > MOST_SYMBOLS:
        return Proposal(None, "too_long")
    if not signs or not set(signs) <= set("CN" + LETTERS):
        return Proposal(None, "no_formula")
    builder, names, open_parts = Builder(), dict[str, int](), list[tuple[str, list[int]]]()
    for i, sign in enumerate(signs):
        if sign in "CN":
            open_parts.append((sign, []))
            continue
        made = names[sign] if sign in names else names.setdefault(sign, builder.variable())
        while open_parts:
            kind, parts = open_parts[-1]
            parts.append(made)
            if len(parts) < (2 if kind == "C" else 1):
                break
            open_parts.pop()
            made = builder.node(parts[0], parts[1] if kind == "C" else -1)
        else:
            return Proposal(Formula(tuple(builder.nodes))) if i == len(signs) - 1 else Proposal(None, "unbalanced")
    return Proposal(None, "unbalanced")


class Builder:
    """Nodes of an unfinished formula; equal ones are shared."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._places: dict[Node, int] = {}

    def variable(self) -> int:
        self.nodes.append(VARIABLE)
        return len(self.nodes) - 1

    def node(self, left: int, right: int) -> int:
        place = self._places.get((left, right))
        if place is None:
            place = self._places[left, right] = len(self.nodes)
            self.nodes.append((left, right))
        return place


def is_instance(formula: Formula, general: Formula) -> bool:
    """Return whether substituting formulas for the variables of `general` makes `formula`. Linear in the two lists."""
    substitution: dict[int, int] = {}
    todo = [(len(general.nodes) - 1, len(formula.nodes) - 1)]
    while todo:
        mine, other = todo.pop()
        if mine in substitution:
            if substitution[mine] != other:
                return False
            continue
        substitution[mine] = other
        (left, right), (other_left, other_right) = general.nodes[mine], formula.nodes[other]
        if left < 0:
            continue
        if other_left < 0 or (right < 0) != (other_right < 0):
            return False
        todo.append((left, other_left))
        if right >= 0:
            todo.append((right, other_right))
    return True


def is_tautology(formula: Formula) -> bool | None:
    """Return whether every row of the truth table is true, which is equivalent to provability (the axioms are
    complete). None: more than MOST_VARIABLES variables. A column of the table is one integer."""
    if formula.variables > MOST_VARIABLES:
        return None
    rows = 1 << formula.variables
    every, columns, named = (1 << rows) - 1, list[int](), 0
    for left, right in formula.nodes:
        if left < 0:  # of variable k, 2**k rows of 0 and 2**k rows of 1 take turns
            columns.append(every // ((1 << (1 << named)) + 1) << (1 << named))
            named += 1
        else:
            columns.append(every & ~columns[left] if right < 0 else every & ~columns[left] | columns[right])
    return columns[-1] == every


def subformula(formula: Formula, place: int) -> Formula:
    """Return the formula of the node at `place`."""
    builder, made = Builder(), dict[int, int]()
    todo = [place]
    while todo:
        node = todo[-1]
        left, right = formula.nodes[node]
        missing = [part for part in (right, left) if part >= 0 and part not in made]
        if node in made or not missing:
            todo.pop()
            if node not in made:
                made[node] = builder.variable() if left < 0 else builder.node(made[left], made.get(right, -1))
        else:
            todo += missing
    return Formula(tuple(builder.nodes))
