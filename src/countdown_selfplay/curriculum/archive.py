"""Counters and the archive of played problems: built from gathered records, so every process holds the same copy."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

PLAYED_LIMIT = 512
"""Most problems in the rolling archive that rewards measure novelty against; a few rounds' to a few dozen rounds'."""

RATES_LIMIT = 64
"""Most rounds whose mean solve rates are kept: a moving mean that forgets a tenth a round needs no more (0.1%)."""


@dataclass
class CurriculumState:
    """JSON-able state of the curriculum.

    rounds: rounds played. starved_rounds: of these, rounds that played no conjectured problem.
    attempt: rollbacks so far; it is part of every sampling seed, so that a rolled-back run does not repeat the samples
    that led to the collapse.
    *_samples, *_tokens: completions and completion tokens generated per role.
    archive: problem key -> last round it was played in, limited to the novelty window.
    solved: problem key -> correct answers so far, no higher than an objective's limit; empty where none has a limit.
    played: keys of the conjectured problems played last, oldest first, each once, PLAYED_LIMIT at most.
    recent_rates: their mean solve rate per round that had any, oldest first, RATES_LIMIT at most.
    """

    rounds: int = 0
    starved_rounds: int = 0
    attempt: int = 0
    prover_samples: int = 0
    prover_tokens: int = 0
    conjecturer_samples: int = 0
    conjecturer_tokens: int = 0
    archive: dict[str, int] = field(default_factory=dict)
    solved: dict[str, int] = field(default_factory=dict)
    played: list[str] = field(default_factory=list)
    recent_rates: list[float] = field(default_factory=list)

    def played_within(self, key: str, window: int) -> bool:
        """Whether the problem was played in the last `window` rounds."""
        return window > 0 and self.rounds - self.archive.get(key, -window - 1) <= window

    def record_round(self, keys: Iterable[str], window: int, starved: bool) -> None:
        """Close a round in which the conjectured problems `keys` were played."""
        if window > 0:
            self.archive.update(dict.fromkeys(keys, self.rounds))
            self.archive = {key: last for key, last in self.archive.items() if self.rounds - last < window}
        self.rounds += 1
        self.starved_rounds += int(starved)

    def record_played(self, keys: Iterable[str], solve_rates: Iterable[float]) -> None:
        """Add a round's conjectured problems and their solve rates; nothing for a round without any."""
        keys, rates = list(keys), [float(rate) for rate in solve_rates]
        again = set(keys)
        self.played = [*(key for key in self.played if key not in again), *dict.fromkeys(keys)][-PLAYED_LIMIT:]
        if rates:
            self.recent_rates = [*self.recent_rates, sum(rates) / len(rates)][-RATES_LIMIT:]

    def record_solved(self, solved: Iterable[tuple[str, int]], limit: int) -> None:
        """Add a round's (key, correct answers); counting stops at `limit`."""
        for key, count in solved:
            if count:
                self.solved[key] = min(self.solved.get(key, 0) + count, limit)

    def mastered(self, limit: int) -> frozenset[str]:
        """Keys of the problems with at least `limit` correct answers."""
        return frozenset(key for key, count in self.solved.items() if count >= limit)

    def spent(self) -> dict[str, int]:
        """What was generated so far. A rollback takes back what was learnt from it, not what it cost."""
        return {name: value for name, value in asdict(self).items() if name.endswith(("_samples", "_tokens"))}

    def keep_spent(self, spent: dict[str, int]) -> None:
        """After a rollback: the counts of before, which are at least those of the checkpoint."""
        for name, value in spent.items():
            setattr(self, name, max(getattr(self, name), value))

    @property
    def generations(self) -> int:
        """Completions of all roles so far."""
        return self.prover_samples + self.conjecturer_samples

    def count(self, role: str, samples: int, tokens: int) -> None:
        setattr(self, f"{role}_samples", getattr(self, f"{role}_samples") + samples)
        setattr(self, f"{role}_tokens", getattr(self, f"{role}_tokens") + tokens)

    def state_dict(self) -> dict[str, Any]:
        return asdict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, copy.copy(value) if isinstance(value, dict | list) else value)
