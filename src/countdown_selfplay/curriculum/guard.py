"""Collapse guard on the metrics of rounds, and a check that the first rounds' texts are readable: a role that does not
know its format gets no useful signal. Callbacks act on the results."""

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..contract.metric import UNBOUNDED, Metric, Range


@dataclass(frozen=True)
class Trip:
    """Detected collapse: the metric, its (mean) value, and the violated rule."""

    metric: str
    value: float
    rule: str

    def __str__(self) -> str:
        return f"{self.metric} is {self.value:.4g}, {self.rule}"

    @property
    def advice(self) -> str:
        """Advice on settings: those of the metric's role, or of the conjecturer for a metric of the round."""
        first, *rest = self.metric.split("/")  # a player's may be conjecturer/0/parseable_rate, grad_norm/prover/1
        role = "/".join(rest) if first in ("grad_norm", "lr") else "/".join([first, *rest[:-1]])
        role = "conjecturer" if first == "round" or not rest else role
        if role == "proposer":  # a symbolic proposer has neither
            return "Let the proposer tell more problems apart (features: 13), or raise `diversity` or `candidates`"
        cure = f"Lower the {role}'s learning rate or raise its beta"
        return cure if math.isfinite(self.value) else f"{cure}, and look for what is not finite in its rewards or loss"


@dataclass
class CollapseGuard:
    """Detector of collapse in the metrics that declare `trip`, `in_a_row` or `finite`: by default the parseable rate,
    starvation, a solve rate near 0 or 1, and values that must be finite (Allen and Ståblein, section 3.2). `trip` is a
    range for the mean over the last `window` rounds with the metric; `absent`, if set, is the value in later rounds
    without the metric. `healthy`: no rule is violated, no value of the round is out of range,
    and no `in_a_row` count is above 0; rollbacks skip checkpoints that were saved while it was False."""

    metrics: Sequence[Metric] = ()
    window: int = 10
    trips: Mapping[str, Range] = field(default_factory=dict)
    """Metric name -> range that replaces the declared one; an unbounded range disables `in_a_row` too."""
    healthy: bool = True
    in_a_row: dict[str, int] = field(default_factory=dict)
    history: dict[str, deque[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        watched = [replace(m, trip=self.trips.get(m.name, m.trip)) for m in self.metrics]
        self.metrics = tuple(replace(m, in_a_row=None) if m.trip == UNBOUNDED else m for m in watched)

    def observe(self, metrics: Mapping[str, Any]) -> Trip | None:
        """Add one round's metrics; return the first violated rule, or None."""
        for declared in self.metrics:
            if declared.in_a_row is not None:
                above = (metrics.get(declared.name) or 0) > 0
                self.in_a_row[declared.name] = self.in_a_row.get(declared.name, 0) + 1 if above else 0
        for declared in self.metrics:
            value = metrics.get(declared.name)
            if declared.finite and value is not None and not math.isfinite(value):
                self.healthy = False
                return Trip(declared.name, value, "and must be finite")
        alone = any(self.in_a_row.values())
        trips: list[Trip] = []
        for declared in self.metrics:
            value = metrics.get(declared.name, declared.absent if declared.name in self.history else None)
            if declared.trip in (None, UNBOUNDED) or not isinstance(value, int | float):
                continue
            alone = alone or bool(_broken(value, declared.trip))
            seen = self.history.setdefault(declared.name, deque(maxlen=self.window))
            seen.append(float(value))
            if len(seen) == self.window:
                mean, rounds = sum(seen) / len(seen), f"over the last {self.window} rounds"
                trips += [Trip(declared.name, mean, f"{rule} {rounds}") for rule in _broken(mean, declared.trip)]
        for declared in self.metrics:
            if declared.in_a_row is not None and (count := self.in_a_row[declared.name]) >= declared.in_a_row:
                trips.append(Trip(declared.name, metrics[declared.name], f"above 0 in {count} rounds in a row"))
        self.healthy = not trips and not alone
        return trips[0] if trips else None

    def state_dict(self) -> dict[str, Any]:
        return {
            "healthy": self.healthy,
            "in_a_row": dict(self.in_a_row),
            "history": {name: list(values) for name, values in self.history.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        counted = {metric.name for metric in self.metrics if metric.in_a_row is not None}  # `trips` may lift a rule
        self.healthy = state["healthy"]
        self.in_a_row = {name: rounds for name, rounds in state["in_a_row"].items() if name in counted}
        self.history = {name: deque(values, maxlen=self.window) for name, values in state["history"].items()}


@dataclass
class ConjecturerGuard:
    """Guard as in the text of Allen and Ståblein (section 3.2): a conjecturer whose parseable rate in the current
    round is below `lowest` is rolled back alone (training/store.py). State: the number of such rollbacks, and whether
    the newest weights are healthy."""

    lowest: Mapping[str, float]
    """Player -> the lowest rate that is healthy."""
    rollbacks: int = 0
    healthy: bool = True

    def fallen(self, metrics: Mapping[str, Any]) -> dict[str, float]:
        """Return the players below the threshold, with their rates, and set `healthy` to whether there are none."""
        rates = {player: metrics.get(f"{player}/parseable_rate", 1.0) for player in self.lowest}
        low_rates = {player: rate for player, rate in rates.items() if rate < self.lowest[player]}
        self.healthy = not low_rates
        return low_rates

    def state_dict(self) -> dict[str, Any]:
        return {"rollbacks": self.rollbacks, "healthy": self.healthy}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rollbacks, self.healthy = state["rollbacks"], state["healthy"]


def _broken(value: float, trip: Range) -> list[str]:
    low, high = trip
    return [f"under {low:g}"] * (value < low) + [f"over {high:g}"] * (value > high)


LEAST = 0.1
"""Share of readable texts of a role below which the run warns."""
ROUNDS = 3
"""Number of rounds whose mean is checked: in few texts none may be readable by chance."""


class Legibility:
    """Check of the metrics that are declared `legible`: their means over the first `rounds` rounds, once per run."""

    def __init__(self, metrics: Iterable[Metric], rounds: int = ROUNDS) -> None:
        self.metrics, self.rounds = [metric for metric in metrics if metric.legible], rounds
        self.seen: dict[str, list[float]] = {metric.name: [] for metric in self.metrics}
        self.judged = False

    def observe(self, number: int, metrics: Mapping[str, Any]) -> str | None:
        """Add the metrics of round `number`, from 1. After round `rounds` return the result of `judge`, else None. A
        run that is resumed later is not checked."""
        if number > self.rounds:
            return None
        for name, values in self.seen.items():
            if metrics.get(name) is not None:
                values.append(float(metrics[name]))
        return self.judge() if number == self.rounds else None

    def judge(self) -> str | None:
        """Return a warning with a remedy if a mean is below LEAST; None otherwise, and at later calls."""
        means = {name: math.fsum(values) / len(values) for name, values in self.seen.items() if values}
        below = [metric for metric in self.metrics if means.get(metric.name, 1.0) < LEAST]
        known, self.judged = self.judged, True
        if known or not below:
            return None
        rates = ", ".join(f"{metric.name} {means[metric.name]:.2g}" for metric in below)
        cures = "; ".join(dict.fromkeys(_clause(metric.cure) for metric in below if metric.cure))
        return f"Hardly anything can be read in the first rounds ({rates}): {cures or 'look at samples.jsonl'}."


def _clause(sentence: str) -> str:
    return f"{sentence[0].lower()}{sentence[1:].removesuffix('.')}"
