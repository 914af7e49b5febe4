"""Which proposals may be played: parsed, in range, solvable, not held out, novel. Pure functions on gathered
records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..countdown import CountdownDomain, Problem
from ..curriculum import CurriculumState


@dataclass(frozen=True)
class Candidate:
    """A proposal after parsing. `reason` says why it stopped there, or "ok"; a refused one can still hold a
    problem."""

    problem: Problem | None
    reason: str
    in_range: bool = False
    solvable: bool = False


def examine(domain: CountdownDomain, texts: Iterable[str]) -> list[Candidate]:
    """Parse proposals and check range and solvability; the solver sees the process's own share, in one batch.

    Solvability is asked only in range: beyond it the exact solver could be handed anything.
    """
    proposals = [domain.parse(text) for text in texts]
    in_range = [p.problem for p in proposals if p.problem is not None and domain.in_range(p.problem)]
    solvable = iter(domain.solvable_batch(in_range))
    found = []
    for proposal in proposals:
        problem = proposal.problem
        if problem is None:
            found.append(Candidate(None, str(proposal.reason)))
        elif not domain.in_range(problem):
            found.append(Candidate(problem, "out_of_range"))
        else:
            ok = next(solvable)
            found.append(Candidate(problem, "ok" if ok else "unsolvable", in_range=True, solvable=ok))
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


def kept_proposals(admitted: int, slots: int, anchor_slots: int, fill: str, truncate_multiple: int) -> int:
    """How many admitted proposals are played; anchor problems fill the other slots.

    fill="anchor": as many as fit. fill="truncate": the bug of seed 001 (section 5.2), kept as a legacy mode: the count
    is cut down to a multiple of the accumulation factor, so that with 1-7 admitted proposals and a factor of 8 none is
    played (71% of the steps of that run).
    """
    kept = min(admitted, slots - anchor_slots)
    return kept - kept % truncate_multiple if fill == "truncate" else kept
