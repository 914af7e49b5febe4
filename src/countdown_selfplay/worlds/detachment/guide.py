"""The rubric of SGS 2026, appendix E.3, for lemmas of condensed detachment, by exact rules instead of a model's word.

The paper's reviewer is asked how useful a lemma is for a theorem, whether premises are redundant, and how complex its
conclusion is. The three numbers are defined here:

relevance: 5 the target is an instance of the lemma (a proof of the lemma proves it), or one detachment with an axiom
or with the lemma itself makes the target of it; 4 one detachment with a theorem of a proof of 3 or 5 signs, or two
detachments with axioms, does; 3 the lemma is an instance of the target, or a proper part of the target, or of the
lemma, is the other; 2 the two share a part of four signs or more; 1 anything else; 0 the target itself, or an instance
of an axiom.
redundancy: 1 if one of the premises of the lemma (of A, B, ... in CACB...) can be left out.
complexity: 1 for more signs than the target has, 1 for more variables, 1 for deeper nesting, 1 for a double negation.
"""

from collections.abc import Iterator
from functools import lru_cache

from ...contract.domain import Helping
from ...countdown.guide import Review
from .checker import AXIOMS, detach
from .formulas import Builder, Formula, is_instance, is_tautology, subformula
from .theorems import most_general

SHORT = 5
"""Largest proof length of a known theorem."""
SHARED = 4
"""Smallest number of symbols of a common part of a theorem and a lemma, which excludes p -> q and not p."""


@lru_cache(maxsize=65536)
def rubric(target: Formula, lemma: Formula) -> Review:
    """Review a lemma as a help with a target: relevance 0 to 5, redundancy 0 or 1, complexity 0 to 4."""
    double = any(right < 0 <= left and lemma.nodes[left][0] >= 0 > lemma.nodes[left][1] for left, right in lemma.nodes)
    larger = [getattr(lemma, size) > getattr(target, size) for size in ("symbols", "variables", "depth")]
    return Review(_relevance(target, lemma), int(_has_idle_premise(lemma)), sum(larger) + double)


def _relevance(target: Formula, lemma: Formula) -> int:
    if lemma == target or any(is_instance(lemma, axiom) for axiom in AXIOMS.values()):
        return 0
    if is_instance(target, lemma) or any(is_instance(target, made) for made in _one_step(lemma, 1)):
        return 5
    if any(is_instance(target, made) for made in _one_step(lemma, SHORT)):
        return 4
    if any(is_instance(target, made) for first in _one_step(lemma, 1) for made in _one_step(first, 1)):
        return 4
    lemma_parts, parts = _parts(lemma), _parts(target)
    if is_instance(lemma, target) or lemma in parts or target in lemma_parts:
        return 3
    return 2 if any(part.symbols >= SHARED for part in lemma_parts & parts) else 1


def _one_step(lemma: Formula, longest: int) -> Iterator[Formula]:
    """Yield the results of one detachment of the lemma and itself, or a theorem with a proof of at
    most `longest` symbols."""
    for other in [lemma, *(f for length in range(1, longest + 1, 2) for f in most_general(length))]:
        for made in (detach(lemma, other), detach(other, lemma)):
            if made is not None:
                yield made


def _parts(formula: Formula) -> set[Formula]:
    """Return its subformulas with a connective, up to renaming."""
    return {subformula(formula, place) for place, (left, _) in enumerate(formula.nodes) if left >= 0}


def _has_idle_premise(lemma: Formula) -> bool:
    premises, place = [], len(lemma.nodes) - 1
    while lemma.nodes[place][1] >= 0:
        premises.append(lemma.nodes[place][0])
        place = lemma.nodes[place][1]
    for left_out in range(len(premises)):
        builder = Builder()
        builder.nodes = list(lemma.nodes)
        root = place
        for premise in reversed(premises[:left_out] + premises[left_out + 1 :]):
            root = builder.node(premise, root)
        if is_tautology(subformula(Formula(tuple(builder.nodes)), root)):
            return True
    return False


class DetachmentHelping(Helping):
    """Rubric for guides."""

    def review(self, target: Formula, problem: Formula, solution: str | None = None) -> Review:
        return rubric(target, problem)
