"""What a curriculum remembers of the problems it played: built from gathered records, so every process holds the
same copy."""

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
class Archive:
    """JSON-able memory of propose_and_solve."""

    rounds: int = 0
    """Rounds that were recorded."""
    starved_rounds: int = 0
    """Of these, rounds that played no proposal."""
    last_played: dict[str, int] = field(default_factory=dict)
    """Problem key -> last round it was played in, limited to the novelty window."""
    solved: dict[str, int] = field(default_factory=dict)
    """Problem key -> correct answers so far, no higher than an objective's limit; empty where none has a limit."""
    played: list[str] = field(default_factory=list)
    """Keys of the proposals played last, oldest first, each once, PLAYED_LIMIT at most."""
    recent_rates: list[float] = field(default_factory=list)
    """Their mean solve rate per round that had any, oldest first, RATES_LIMIT at most."""

    def played_within(self, key: str, window: int) -> bool:
        """Whether the problem was played in the last `window` rounds."""
        return window > 0 and self.rounds - self.last_played.get(key, -window - 1) <= window

    def record_round(self, keys: Iterable[str], window: int, starved: bool) -> None:
        """Close a round in which the proposals `keys` were played."""
        if window > 0:
            self.last_played.update(dict.fromkeys(keys, self.rounds))
            self.last_played = {key: last for key, last in self.last_played.items() if self.rounds - last < window}
        self.rounds += 1
        self.starved_rounds += int(starved)

    def record_played(self, keys: Iterable[str], solve_rates: Iterable[float]) -> None:
        """Add a round's proposals and their solve rates; nothing for a round without any."""
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

    def state_dict(self) -> dict[str, Any]:
        return asdict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, copy.copy(value) if isinstance(value, dict | list) else value)
