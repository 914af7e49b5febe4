"""The collapse guard's judgement: from the metrics of rounds to a trip, or none. What is done about it is a
callback's."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Any

# Metric -> threshold's field, and whether the mean must stay above ("low") or below ("high") it.
_WATCHED = (
    ("conjecturer/parseable_rate", "min_parseable_rate", "low"),
    ("round/solve_rate_mean", "min_solve_rate", "low"),
    ("round/solve_rate_mean", "max_solve_rate", "high"),
    ("prover/entropy", "min_entropy", "low"),
    ("conjecturer/entropy", "min_entropy", "low"),
)
_MUST_BE_FINITE = (
    "prover/loss",
    "conjecturer/loss",
    "grad_norm/prover",
    "grad_norm/conjecturer",
    "prover/reward",
    "conjecturer/reward",
)


@dataclass(frozen=True)
class Trip:
    """A collapse that was seen: which metric, its (mean) value, and the rule it broke."""

    metric: str
    value: float
    rule: str

    def __str__(self) -> str:
        return f"{self.metric} is {self.value:.4g}, {self.rule}"

    @property
    def advice(self) -> str:
        """What to change: settings of the role that the metric is of, the conjecturer's for the round as a whole."""
        role = "prover" if "prover" in self.metric else "conjecturer"
        cure = f"Lower the {role}'s learning rate or raise its beta"
        return cure if math.isfinite(self.value) else f"{cure}, and look for what is not finite in its rewards or loss"


@dataclass
class CollapseGuard:
    """Watches parseable rate, starvation, solve rate near 0 or 1, entropy and non-finite values.

    A threshold is compared with the mean over the last `window` rounds that logged the metric, once there are that
    many; starvation counts rounds in a row; a non-finite value trips at once. `healthy` is False from the first round
    that breaks a rule by itself until one that does not: a checkpoint saved in between is not one to go back to.
    Seed 001, section 3.2.
    """

    window: int = 10
    min_parseable_rate: float = 0.5
    max_starved_rounds: int = 20
    min_solve_rate: float = 0.01
    max_solve_rate: float = 0.99
    min_entropy: float = 0.0
    healthy: bool = True
    starved_in_a_row: int = 0
    history: dict[str, deque[float]] = field(default_factory=dict)

    def observe(self, metrics: dict[str, Any]) -> Trip | None:
        """Take in one round's metrics (absent keys are not counted); the first rule that is broken, if any."""
        self.starved_in_a_row = self.starved_in_a_row + 1 if metrics.get("round/starved") else 0
        for name in _MUST_BE_FINITE:
            value = metrics.get(name)
            if value is not None and not math.isfinite(value):
                self.healthy = False
                return Trip(name, value, "and must be finite")
        trip, alone = None, self.starved_in_a_row > 0
        for name, field_name, side in _WATCHED:
            threshold = getattr(self, field_name)
            value = metrics.get(name)
            if value is None or (side == "low" and threshold <= 0) or (side == "high" and threshold >= 1):
                continue
            alone = alone or _breaks(value, threshold, side)
            seen = self.history.setdefault(f"{name}:{side}", deque(maxlen=self.window))
            seen.append(float(value))
            mean = sum(seen) / len(seen)
            if trip is None and len(seen) == self.window and _breaks(mean, threshold, side):
                word = "under" if side == "low" else "over"
                trip = Trip(name, mean, f"{word} {threshold} over the last {self.window} rounds")
        if trip is None and self.starved_in_a_row >= self.max_starved_rounds:
            trip = Trip("round/starved", float(self.starved_in_a_row), "rounds in a row without a conjectured problem")
        self.healthy = trip is None and not alone
        return trip

    def state_dict(self) -> dict[str, Any]:
        return {
            "healthy": self.healthy,
            "starved_in_a_row": self.starved_in_a_row,
            "history": {name: list(values) for name, values in self.history.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.healthy, self.starved_in_a_row = state["healthy"], state["starved_in_a_row"]
        self.history = {name: deque(values, maxlen=self.window) for name, values in state["history"].items()}


def _breaks(value: float, threshold: float, side: str) -> bool:
    return value < threshold if side == "low" else value > threshold
