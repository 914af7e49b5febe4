"""Generated problems that the solver is trained on: the buffer B_gen of Task Difficulty and Diversity, section 3.3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..registry import Amount, Count


@dataclass
class Entry:
    """A problem in the buffer. p: its solve rate, as estimated or last measured. measured: whether it was played.
    added: the round it came in. arm: what proposed it."""

    key: str
    p: float
    added: int
    arm: str
    measured: bool = False


class ProblemReplay:
    """A draw is uniform over all entries, as in the paper, which says that the buffer is sampled from and no more. As
    an option of ours a draw has weights 2^(-age / half_life) x exp(-outside / softness), with the age in rounds and
    `outside` the distance of p to the band: a second selection by difficulty. When there are more than `capacity`
    entries, those of least weight go; of equal weights, the oldest.

    half_life 0: age does not count. softness 0: difficulty does not count.
    """

    def __init__(self, capacity: Count = 10_000, half_life: Amount = 0.0, softness: Amount = 0.0) -> None:
        self.capacity, self.half_life, self.softness = capacity, half_life, softness
        self.entries: dict[str, Entry] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, keys: Sequence[str], p_N: Sequence[float], arms: Sequence[str], now: int, band: Any) -> None:
        """A round's selected problems. `band`: a Selection, whose distance to the band counts."""
        for key, p, arm in zip(keys, p_N, arms, strict=True):
            self.entries[key] = Entry(key, float(p), now, arm)
        if len(self.entries) > self.capacity:
            listed = list(self.entries.values())
            added_E = np.array([entry.added for entry in listed])
            order = np.lexsort((-added_E, -self._log_weights(listed, now, band)))[: self.capacity]
            self.entries = {listed[i].key: listed[i] for i in sorted(order.tolist())}

    def draw(self, count: int, now: int, band: Any, seed: int) -> list[Entry]:
        """At most `count` different problems, without replacement."""
        listed = list(self.entries.values())
        if not listed:
            return []
        noise = np.random.default_rng(seed).gumbel(size=len(listed))
        order = np.argsort(-(self._log_weights(listed, now, band) + noise), kind="stable")[:count]
        return [listed[i] for i in order]

    def measured(self, key: str, rate: float) -> float | None:
        """Take in the solve rate of a problem that was played; the change since it was last played, if it was."""
        entry = self.entries.get(key)
        if entry is None:
            return None
        change = rate - entry.p if entry.measured else None
        entry.p, entry.measured = rate, True
        return change

    def _log_weights(self, listed: Sequence[Entry], now: int, band: Any) -> np.ndarray:
        age_E = np.array([now - entry.added for entry in listed], dtype=float)
        outside_E = band.outside(np.array([entry.p for entry in listed]))
        by_age_E = age_E * np.log(2) / self.half_life if self.half_life else 0.0
        return -(by_age_E + (outside_E / self.softness if self.softness else 0.0)) + 0.0 * age_E

    def state_dict(self) -> dict[str, Any]:
        return {"entries": [vars(entry) for entry in self.entries.values()]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.entries = {values["key"]: Entry(**values) for values in state["entries"]}
