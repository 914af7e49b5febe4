"""Admission of proposals (readable, valid for the domain, not held out, novel), their order, and the archive of played
problems. Computed from gathered records: every process holds the same copy."""

import copy
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, zip_longest
from math import ceil
from typing import Any

from ..contract.domain import OpenDomain
from ..contract.game import Proposal

PLAYED_LIMIT = 512
"""Largest number of problems in the archive against which rewards measure novelty: tens of rounds at most."""

RATES_LIMIT = 64
"""Number of rounds whose mean solve rates are kept: enough for a moving mean with a decay of 0.9 (error 0.1%)."""


@dataclass
class Archive:
    """State of the game propose_and_solve, as plain JSON."""

    rounds: int = 0
    starved_rounds: int = 0
    """Number of starved rounds (`games.health.is_starved`)."""
    last_played: dict[str, int] = field(default_factory=dict)
    """Problem key -> last round in which it was played, within the novelty window."""
    solved: dict[str, int] = field(default_factory=dict)
    """Problem key -> number of correct answers so far, at most an objective's limit; empty without a limit."""
    played: list[str] = field(default_factory=list)
    """Distinct keys of the last played proposals, oldest first, at most PLAYED_LIMIT."""
    recent_rates: list[float] = field(default_factory=list)
    """Mean solve rates of rounds with played proposals, oldest first, at most RATES_LIMIT."""

    def played_within(self, key: str, window: int) -> bool:
        """Return whether the problem was played in the last `window` rounds."""
        return window > 0 and self.rounds - self.last_played.get(key, -window - 1) <= window

    def record_round(self, keys: Iterable[str], window: int, starved: bool) -> None:
        """Count a round, and keep the `keys` of its played proposals for `window` rounds; `starved`: `is_starved`."""
        if window > 0:
            self.last_played.update(dict.fromkeys(keys, self.rounds))
            self.last_played = {key: last for key, last in self.last_played.items() if self.rounds - last < window}
        self.rounds += 1
        self.starved_rounds += int(starved)

    def record_played(self, keys: Iterable[str], solve_rates: Iterable[float]) -> None:
        """Store the keys of a round's played problems and their mean solve rate."""
        keys, rates = list(keys), [float(rate) for rate in solve_rates]
        again = set(keys)
        self.played = [*(key for key in self.played if key not in again), *dict.fromkeys(keys)][-PLAYED_LIMIT:]
        if rates:
            self.recent_rates = [*self.recent_rates, sum(rates) / len(rates)][-RATES_LIMIT:]

    def record_solved(self, solved: Iterable[tuple[str, int]], limit: int) -> None:
        """Add the pairs (key, number of correct answers) of a round; counts stop at `limit`."""
        for key, count in solved:
            if count:
                self.solved[key] = min(self.solved.get(key, 0) + count, limit)

    def mastered(self, limit: int) -> frozenset[str]:
        """Return the keys of the problems with at least `limit` correct answers."""
        return frozenset(key for key, count in self.solved.items() if count >= limit)

    def state_dict(self) -> dict[str, Any]:
        return asdict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, copy.copy(value) if isinstance(value, dict | list) else value)


def examine(
    domain: OpenDomain[Any], texts: Sequence[str], requests: Sequence[Mapping[str, Any]], by: str | None = None
) -> list[Proposal]:
    """Parse the texts of the player `by` and check the problems, each against its request, in one batch."""
    parsed = domain.parse(texts)
    readable = [i for i, proposal in enumerate(parsed) if proposal.problem is not None]
    checked = domain.check([parsed[i].problem for i in readable], [requests[i] for i in readable])
    known = dict(zip(readable, checked, strict=True))
    return [
        Proposal(proposal.problem, known[i].reason, by, requests[i], known[i].facts)
        if i in known
        else Proposal(None, str(proposal.reason), by, requests[i])
        for i, proposal in enumerate(parsed)
    ]


@dataclass(frozen=True)
class Admission:
    """Result of `admit`. problem_of: for each proposal the index of its problem in `problems`, or None if the proposal
    gets `invalid_reward`. reasons: one per proposal, "ok" if it is admitted."""

    problems: list[Any]
    problem_of: list[int | None]
    reasons: list[str]


def admit(
    domain: OpenDomain[Any],
    proposals: Iterable[Proposal],
    archive: Archive,
    excluded: frozenset[str],
    novelty_window: int,
    duplicates: str,
) -> Admission:
    """Admit all processes' proposals in rank order, except those in `excluded` or played in the last `novelty_window`
    rounds. Of equal problems the first is admitted; `duplicates`: "keep" admits all, "share" gives all its index."""
    problems: list[Any] = []
    position: dict[str, int] = {}
    problem_of: list[int | None] = []
    reasons: list[str] = []
    for proposal in proposals:
        index, reason = None, proposal.reason
        if reason == "ok" and proposal.problem is not None:
            key = domain.key(proposal.problem)
            if key in excluded:
                reason = "held_out"
            elif key in position and duplicates != "keep":
                reason = "duplicate"
                index = position[key] if duplicates == "share" else None
            elif archive.played_within(key, novelty_window):
                reason = "not_novel"
            else:
                index = position[key] = len(problems)
                problems.append(proposal.problem)
        problem_of.append(index)
        reasons.append(reason)
    return Admission(problems, problem_of, reasons)


def dealt(
    admission: Admission, proposals: Sequence[Proposal], asks: Sequence[Mapping[str, Any]], turn: int
) -> Admission:
    """Return the admission with its problems in the order in which they get slots: one per type of request in turn,
    from place `turn` of `asks` on (cyclic), so that row order favours no type. A request listed twice has two turns;
    requests not in `asks` follow. Within a type the players alternate, and the first player changes with `turn`. With
    one type and player the order is that of the rows."""
    order = [repr(ask) for ask in asks]
    order += dict.fromkeys(repr(p.request) for p in proposals if repr(p.request) not in order)
    players = list(dict.fromkeys(p.by for p in proposals))
    first = turn % max(len(players), 1)
    lines: dict[str, list[list[int]]] = {kind: [[] for _ in players] for kind in order}
    for proposal, index, reason in zip(proposals, admission.problem_of, admission.reasons, strict=True):
        if reason == "ok" and index is not None:
            lines[repr(proposal.request)][players.index(proposal.by)].append(index)
    waiting = {kind: _in_turn([*members[first:], *members[:first]]) for kind, members in lines.items()}
    places: list[int] = []
    while len(places) < len(admission.problems):
        line = waiting[order[turn % len(order)]]
        places += [line.popleft()] if line else []
        turn += 1
    place = {index: i for i, index in enumerate(places)}
    return replace(
        admission,
        problems=[admission.problems[index] for index in places],
        problem_of=[None if index is None else place[index] for index in admission.problem_of],
    )


def _in_turn(lines: list[list[int]]) -> deque[int]:
    return deque(i for i in chain.from_iterable(zip_longest(*lines)) if i is not None)


def slots_filled(admitted: int, slots: int, anchor_fraction: float, fill: str, multiple: int = 1) -> tuple[int, int]:
    """Return the number of proposals and of anchor problems that are played, at most `slots` together.

    Rules of `fill`:
        anchor: proposals in at most the share of slots that `anchor_fraction` leaves, anchors in all remaining slots.
        truncate: bug of Allen and Ståblein (section 5.2), for replication: the proposals are reduced to a multiple of
          `multiple`, there the accumulation factor, 8, so that 1 to 7 proposals give none (71% of the steps of their
          run). Anchors have only their share; the other slots stay empty.
        keep_all: the authors' fix: every proposal is played, and anchors fill the batch to a multiple of `multiple`.
          Unless `anchor_fraction` is 0, anchors are at least that share of the batch and at least `multiple`: with
          0.5 and 8, n proposals get max(n, 8) anchors, rounded up.
        none: proposals only; requires a fraction of 0.
    """
    anchor_slots = round(anchor_fraction * slots)
    kept = min(admitted, slots - anchor_slots)
    if fill == "none":
        return kept, 0
    if fill == "truncate":
        return kept - kept % multiple, anchor_slots
    if fill == "keep_all":
        sizes = [batch_of_all(k, anchor_fraction, multiple) for k in range(min(admitted, slots) + 1)]
        kept = max(k for k, size in enumerate(sizes) if k == 0 or size <= slots)
        return kept, min(sizes[kept], slots) - kept
    return kept, slots - kept


def batch_of_all(proposals: int, anchor_fraction: float, multiple: int) -> int:
    """Return the number of problems of a round that plays all these proposals (fill=keep_all)."""
    anchors = 0
    if anchor_fraction:
        anchors = max(ceil(round(proposals * anchor_fraction / (1 - anchor_fraction), 9)), multiple)
    return ceil((proposals + anchors) / multiple) * multiple
