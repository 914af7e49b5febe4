"""All valid candidates with their estimated solve rates, from which a predictor asks for labels (Task Difficulty and
Diversity, section 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class Reservoir:
    """Candidates that passed the symbolic checks, whether they were selected or not; the last `capacity` of them. One
    that was drawn is taken out: its label is in the predictor's data."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.keys: list[str] = []
        self.p_R = np.zeros(0)

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, keys: Sequence[str], p_N: np.ndarray) -> None:
        """A round's candidates, which replace earlier entries of the same problems."""
        again = set(keys)
        kept = [i for i, key in enumerate(self.keys) if key not in again]
        self.keys = [*(self.keys[i] for i in kept), *keys][-self.capacity :]
        self.p_R = np.concatenate([self.p_R[kept], p_N])[-self.capacity :]

    def draw(self, count: int, low: float, high: float, seed: int) -> list[str]:
        """At most `count` problems, as many with p below `low` as from `low` to `high` and above `high`; where a
        stratum has too few the others fill up."""
        generator = np.random.default_rng(seed)
        strata = [self.p_R < low, (low <= self.p_R) & (self.p_R <= high), self.p_R > high]
        lines = [generator.permutation(np.flatnonzero(mask)).tolist() for mask in strata]
        drawn: list[int] = []
        while len(drawn) < count and any(lines):  # one of each in turn
            drawn += [line.pop() for line in lines if line][: count - len(drawn)]
        taken = set(drawn)
        found = [self.keys[i] for i in drawn]
        kept = [i for i in range(len(self.keys)) if i not in taken]
        self.keys, self.p_R = [self.keys[i] for i in kept], self.p_R[kept]
        return found

    def state_dict(self) -> dict[str, Any]:
        return {"keys": list(self.keys), "p": self.p_R.copy()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.keys, self.p_R = list(state["keys"]), np.array(state["p"], dtype=float)
