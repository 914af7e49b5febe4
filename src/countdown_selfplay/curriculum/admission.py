"""Which proposals may be played (parsed, in range, as asked, solvable, not held out, novel), and in which order they
get slots. Pure functions on gathered records."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ..countdown import CountdownDomain, Problem
from . import CurriculumState


@dataclass(frozen=True)
class Candidate:
    """A proposal after parsing. `reason` says why it stopped there, or "ok"; a refused one can still hold a
    problem. `asked`: the operand count that its prompt asked for."""

    problem: Problem | None
    reason: str
    asked: int
    in_range: bool = False
    solvable: bool = False


def examine(domain: CountdownDomain, texts: Iterable[str], asked: Iterable[int]) -> list[Candidate]:
    """Parse proposals and check range, the operand count that each was asked for, and solvability; the solver sees the
    process's own share, in one batch.

    Solvability is asked only in range: beyond it the exact solver could be handed anything.
    """
    proposals = [domain.parse(text) for text in texts]
    in_range = [p.problem for p in proposals if p.problem is not None and domain.in_range(p.problem)]
    solvable = iter(domain.solvable_batch(in_range))
    found = []
    for proposal, operands in zip(proposals, asked, strict=True):
        problem = proposal.problem
        if problem is None:
            found.append(Candidate(None, str(proposal.reason), operands))
        elif not domain.in_range(problem):
            found.append(Candidate(problem, "out_of_range", operands))
        else:
            ok = next(solvable)
            reason = "ok" if ok else "unsolvable"
            reason = reason if domain.as_asked(problem, operands) else "not_as_asked"
            found.append(Candidate(problem, reason, operands, in_range=True, solvable=ok))
    return found


@dataclass(frozen=True)
class Admission:
    """problem_of: for each proposal the index of its problem in `problems`, or None if it earns the invalid reward.
    reasons: one per proposal, "ok" if it is admitted itself."""

    problems: list[Problem]
    problem_of: list[int | None]
    reasons: list[str]


def admit(
    domain: CountdownDomain,
    candidates: list[Candidate],
    state: CurriculumState,
    excluded: frozenset[str],
    novelty_window: int,
    duplicates: str,
) -> Admission:
    """Go through all processes' candidates in rank order; the first of several equal problems is admitted."""
    problems: list[Problem] = []
    position: dict[str, int] = {}
    problem_of: list[int | None] = []
    reasons: list[str] = []
    for candidate in candidates:
        index, reason = None, candidate.reason
        if reason == "ok" and candidate.problem is not None:
            key = domain.key(candidate.problem)
            if key in excluded:
                reason = "held_out"
            elif key in position:
                reason = "duplicate"
                index = position[key] if duplicates == "share" else None
            elif state.played_within(key, novelty_window):
                reason = "not_novel"
            else:
                index = position[key] = len(problems)
                problems.append(candidate.problem)
        problem_of.append(index)
        reasons.append(reason)
    return Admission(problems, problem_of, reasons)


def dealt(admission: Admission, candidates: list[Candidate], operands: Sequence[int], turn: int) -> Admission:
    """The same problems in the order in which they get slots: one of each operand count in turn, beginning with
    `operands[turn]`, so that no count goes without because its rows stand last. `operands`: those that are asked for;
    one that is listed twice gets two turns. With a single count the order is that of the rows."""
    waiting: dict[int, deque[int]] = {k: deque() for k in operands}
    for candidate, index, reason in zip(candidates, admission.problem_of, admission.reasons, strict=True):
        if reason == "ok" and index is not None:
            waiting[candidate.asked].append(index)
    order: list[int] = []
    while len(order) < len(admission.problems):
        line = waiting[operands[turn % len(operands)]]
        order += [line.popleft()] if line else []
        turn += 1
    place = {index: i for i, index in enumerate(order)}
    return replace(
        admission,
        problems=[admission.problems[index] for index in order],
        problem_of=[None if index is None else place[index] for index in admission.problem_of],
    )


def kept_proposals(admitted: int, slots: int, anchor_slots: int, fill: str, truncate_multiple: int) -> int:
    """How many admitted proposals are played; anchor problems fill the other slots.

    fill="anchor": as many as fit. fill="truncate": the bug of seed 001 (section 5.2), kept as a legacy mode: the count
    is cut down to a multiple of the accumulation factor, so that with 1-7 admitted proposals and a factor of 8 none is
    played (71% of the steps of that run).
    """
    kept = min(admitted, slots - anchor_slots)
    return kept - kept % truncate_multiple if fill == "truncate" else kept
