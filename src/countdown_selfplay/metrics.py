"""From the metrics of rounds to one log entry. A metric that a round did not have is left out of the mean, never
counted as 0."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

HISTOGRAM = "round/solve_rate_histogram"

# TRL's names of rollout metrics -> ours. What TRL computes from rewards is left out: `<role>/reward` is ours, from the
# same numbers, and the conjecturer's rewards are not known yet when TRL scores its proposals.
_ROLLOUT = {
    "completions/mean_length": "completion_length",
    "completions/max_length": "completion_length_max",
    "completions/clipped_ratio": "truncated_rate",
}


def averaged_rounds(rounds: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The mean of every scalar metric over the rounds that have it. Histograms are not scalars: see
    summed_histogram."""
    names = dict.fromkeys(name for metrics in rounds for name in metrics if name != HISTOGRAM)
    means = {}
    for name in names:
        values = [float(metrics[name]) for metrics in rounds if metrics.get(name) is not None]
        if values:
            means[name] = math.fsum(values) / len(values)
    return means


def summed_histogram(rounds: Sequence[Mapping[str, Any]]) -> list[int] | None:
    """Counts per tenth of solve rate over the rounds, or None if no round played a conjectured problem."""
    histograms = [metrics[HISTOGRAM] for metrics in rounds if HISTOGRAM in metrics]
    return [sum(counts) for counts in zip(*histograms, strict=True)] if histograms else None


def role_rollout_metrics(role: str, collected: Mapping[str, list[float]]) -> dict[str, float]:
    """TRL's metrics of a role's rollouts under our names, plus `<role>/rewards/<function>` for the prover."""
    logs = {}
    for name, values in collected.items():
        ours = _ROLLOUT.get(name)
        if ours is None and role == "prover" and name.startswith("rewards/") and name.endswith("/mean"):
            ours = name.removesuffix("/mean")
        known = [value for value in values if value is not None and not math.isnan(value)]
        if ours is not None and known:
            logs[f"{role}/{ours}"] = sum(known) / len(known)
    return logs
