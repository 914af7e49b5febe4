"""Whether a run's first rounds can be read: a role that does not know its format learns from noise, for hours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from ..contract.metric import Metric

LEAST = 0.1
"""Share of a role's texts that must be readable; below it the run warns."""
ROUNDS = 3
"""Rounds whose mean is judged: of a few texts none may be readable by chance."""


class Legibility:
    """Judges the metrics that are declared `legible` by their means over the first `rounds` rounds, once a run."""

    def __init__(self, metrics: Iterable[Metric], rounds: int = ROUNDS) -> None:
        self.metrics, self.rounds = [metric for metric in metrics if metric.legible], rounds
        self.seen: dict[str, list[float]] = {metric.name: [] for metric in self.metrics}
        self.judged = False

    def observe(self, number: int, metrics: Mapping[str, Any]) -> str | None:
        """Take in the metrics of round `number`, from 1; the warning, after the last of the first rounds. A run that
        is resumed later than that is not judged."""
        if number > self.rounds:
            return None
        for name, values in self.seen.items():
            if metrics.get(name) is not None:
                values.append(float(metrics[name]))
        return self.judge() if number == self.rounds else None

    def judge(self) -> str | None:
        """One sentence about what can hardly be read in the rounds so far, with the cure; None where all is well, and
        after the first call."""
        means = {name: math.fsum(values) / len(values) for name, values in self.seen.items() if values}
        found = [metric for metric in self.metrics if means.get(metric.name, 1.0) < LEAST]
        known, self.judged = self.judged, True
        if known or not found:
            return None
        rates = ", ".join(f"{metric.name} {means[metric.name]:.2g}" for metric in found)
        cures = "; ".join(dict.fromkeys(_clause(metric.cure) for metric in found if metric.cure))
        return f"Hardly anything can be read in the first rounds ({rates}): {cures or 'look at samples.jsonl'}."


def _clause(sentence: str) -> str:
    return f"{sentence[0].lower()}{sentence[1:].removesuffix('.')}"
