"""Exact check of proofs by condensed detachment (C. A. Meredith; J. A. Kalman, "Condensed detachment as a rule of
inference", Studia Logica 42, 1983).

    D x y: from A -> B, the theorem of x, and C, that of y, variables renamed apart: B under the most general unifier
           of A and C; no theorem if there is none.

1, 2 and 3 are the axioms ax-1, ax-2 and ax-3 of Metamath (Łukasiewicz, as Mendelson and set.mm have them). A proof
proves every instance of its conclusion, so an answer is right if the theorem asked for is one (Kalman: a formula has a
proof by modus ponens and substitution exactly if it is an instance of such a conclusion).

Formulas share their parts and unification joins classes of nodes, so a detachment costs about as much as the two
formulas have distinct parts, whatever the length of their texts. Two bounds keep any text cheap: MOST_PROOF signs, and
MOST_WORK nodes looked at."""

from dataclasses import dataclass
from enum import StrEnum

from .formulas import Builder, Formula, Node, is_instance, read

AXIOM_TEXTS = {"1": "CpCqp", "2": "CCpCqrCCpqCpr", "3": "CCNpNqCqp"}
MOST_PROOF = 10_000
"""Largest number of symbols of a proof."""
MOST_WORK = 50_000
"""Largest number of nodes of premises in the detachments of one proof: about a tenth of a second."""


class Reason(StrEnum):
    """Reason of a proof's verdict; each is counted."""

    CORRECT = "correct"
    NO_PROOF = "no_proof"
    """A symbol other than D, 1, 2, 3 and white space, or an empty text."""
    UNBALANCED = "unbalanced"
    """A D lacks one of its two proofs, or something follows the proof."""
    TOO_LONG = "too_long"
    """More than MOST_PROOF symbols."""
    NO_DETACHMENT = "no_detachment"
    """A D whose first theorem is not an implication, or whose premise cannot be unified with the second theorem."""
    TOO_LARGE = "too_large"
    """Intermediate formulas exceeded MOST_WORK."""
    OTHER_THEOREM = "other_theorem"
    """The requested theorem is not an instance of its conclusion."""


@dataclass(frozen=True)
class Verdict:
    """Judgement of one proof."""

    reason: Reason
    conclusion: Formula | None = None
    """Most general theorem that it proves."""
    steps: int = 0
    """Number of symbols of the proof."""

    @property
    def correct(self) -> bool:
        return self.reason is Reason.CORRECT

    @property
    def score(self) -> float:
        return float(self.correct)


def check(text: object, theorem: Formula) -> Verdict:
    """Return whether a text proves the theorem, as a Verdict. Never raises."""
    verdict = conclusion(text)
    if verdict.conclusion is None or is_instance(theorem, verdict.conclusion):
        return verdict
    return Verdict(Reason.OTHER_THEOREM, verdict.conclusion, verdict.steps)


def conclusion(text: object) -> Verdict:
    """Return the verdict of a text as a proof of its own conclusion."""
    if not isinstance(text, str):
        return Verdict(Reason.NO_PROOF)
    if len(text) > 4 * MOST_PROOF:  # not parsed
        return Verdict(Reason.TOO_LONG)
    signs = "".join(text.split())
    if len(signs) > MOST_PROOF:
        return Verdict(Reason.TOO_LONG)
    if not signs or not set(signs) <= set("D123"):
        return Verdict(Reason.NO_PROOF)
    steps = _steps(signs)
    if steps is None:
        return Verdict(Reason.UNBALANCED, None, len(signs))
    theorems: list[Formula] = []
    work = 0
    for step in steps:
        if isinstance(step, str):
            theorems.append(AXIOMS[step])
            continue
        major, minor = theorems[step[0]], theorems[step[1]]
        work += len(major.nodes) + len(minor.nodes)
        if work > MOST_WORK:
            return Verdict(Reason.TOO_LARGE, None, len(signs))
        made = detach(major, minor)
        if made is None:
            return Verdict(Reason.NO_DETACHMENT, None, len(signs))
        theorems.append(made)
    return Verdict(Reason.CORRECT, theorems[-1], len(signs))


def _steps(signs: str) -> list[str | tuple[int, int]] | None:
    """Return the distinct parts of a proof in provable order: an axiom, or the indices of two earlier parts. None for
    an unbalanced one."""
    steps: list[str | tuple[int, int]] = []
    places: dict[str | tuple[int, int], int] = {}
    stack: list[int] = []
    for sign in reversed(signs):
        if sign == "D" and len(stack) < 2:
            return None
        step = (stack.pop(), stack.pop()) if sign == "D" else sign
        if step not in places:
            places[step] = len(steps)
            steps.append(step)
        stack.append(places[step])
    return steps if len(stack) == 1 else None


def detach(major: Formula, minor: Formula) -> Formula | None:
    """Return the most general conclusion of modus ponens from instances of the two, or None."""
    premise, concluded = major.nodes[-1]
    if concluded < 0:
        return None
    nodes = [*major.nodes]
    shift = len(nodes)
    nodes += [(a + shift if a >= 0 else -1, b + shift if b >= 0 else -1) for a, b in minor.nodes]
    leader = list(range(len(nodes)))
    todo = [(premise, len(nodes) - 1)]
    while todo:
        one, other = (_leader(leader, place) for place in todo.pop())
        if one == other:
            continue
        (left, right), (other_left, other_right) = nodes[one], nodes[other]
        if left < 0:
            leader[one] = other
        elif other_left < 0:
            leader[other] = one
        elif (right < 0) != (other_right < 0):
            return None
        else:
            leader[one] = other
            todo.append((left, other_left))
            if right >= 0:
                todo.append((right, other_right))
    builder = Builder()
    made: dict[int, int] = {}
    if not _build(concluded, nodes, leader, builder, made):
        return None
    whole = tuple(builder.nodes)
    # A cycle anywhere in the unified premise means that there is no unifier (occurs check).
    return Formula(whole) if _build(premise, nodes, leader, builder, made) else None


def _leader(leader: list[int], place: int) -> int:
    while leader[place] != place:
        leader[place] = place = leader[leader[place]]
    return place


def _build(root: int, nodes: list[Node], leader: list[int], builder: Builder, made: dict[int, int]) -> bool:
    """Build the formula of `root`'s class, its parts first; return False if it would be a part of itself."""
    todo, inside = [_leader(leader, root)], set[int]()
    while todo:
        place = todo[-1]
        if place in made:
            todo.pop()
            continue
        left, right = nodes[place]
        if left < 0:
            made[place] = builder.variable()
            continue
        first = _leader(leader, left)
        second = _leader(leader, right) if right >= 0 else -1
        if place in inside:  # its parts are made, for they stood above it
            made[place] = builder.node(made[first], made[second] if right >= 0 else -1)
            inside.discard(place)
            continue
        inside.add(place)
        parts = [part for part in (second, first) if part >= 0 and part not in made]
        if inside.intersection(parts):
            return False
        todo += parts
    return True


AXIOMS: dict[str, Formula] = {sign: read(text).problem for sign, text in AXIOM_TEXTS.items()}
