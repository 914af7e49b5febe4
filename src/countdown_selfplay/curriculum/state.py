"""Counters and the archive of played problems: built from gathered records, so every process holds the same copy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class CurriculumState:
    """JSON-able state of the curriculum.

    rounds: rounds played. starved_rounds: of these, rounds that played no conjectured problem. attempt: rollbacks so
    far; it is part of every sampling seed, so that a rolled-back run does not repeat the samples that led to the
    collapse.
    *_samples, *_tokens: completions and completion tokens generated per role. archive: problem key -> last round it
    was played in, limited to the novelty window.
    """

    rounds: int = 0
    starved_rounds: int = 0
    attempt: int = 0
    prover_samples: int = 0
    prover_tokens: int = 0
    conjecturer_samples: int = 0
    conjecturer_tokens: int = 0
    archive: dict[str, int] = field(default_factory=dict)

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

    def count(self, role: str, samples: int, tokens: int) -> None:
        setattr(self, f"{role}_samples", getattr(self, f"{role}_samples") + samples)
        setattr(self, f"{role}_tokens", getattr(self, f"{role}_tokens") + tokens)

    def state_dict(self) -> dict[str, Any]:
        return asdict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, dict(value) if isinstance(value, dict) else value)
