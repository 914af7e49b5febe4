"""What is not healthy in a run, in words: metrics outside the ranges that the run declared (docs/metrics.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...contract.metric import UNBOUNDED, Metric, Range, range_text
from .load import Run


def findings(run: Run) -> list[str]:
    """One sentence per metric that is not healthy, the gravest first; empty for a healthy run."""
    found = []
    starved = run.series("round/starved")
    share = mean(run, "round/starved")
    if share:
        what = f"{share:.0%} of {len(starved)} logged rounds"
        found.append(f"The conjecturer was starved: in {what} none of its problems was played.")
    found += lost_coverage(run.evaluation)
    for record in run.rollbacks:
        found.append(
            f"The collapse guard rolled back at round {record.get('step', '?')} to {record.get('to', '?')}: "
            f"{record.get('trip', 'no reason was written')}."
        )
    beyond: dict[bool, list[str]] = {True: [], False: []}  # the guard's range; the healthy one alone
    for metric in run.metrics:
        for late in (True, False):
            value = mean(run, metric.name, late)
            tripped = value is not None and metric.trip is not None and not _inside(value, metric.trip)
            if value is None or metric.name == "round/starved" or (not tripped and _inside(value, metric.healthy)):
                continue
            beyond[tripped].append(_sentence(metric, value, late, tripped))
            break
    found += beyond[True] + beyond[False]
    if not run.rounds:
        found.append("No round was logged.")
    return found


def lost_coverage(evaluation: Mapping[str, Any]) -> list[str]:
    """A sentence if pass@k of the largest k is lower after training than before, with an interval that excludes 0."""
    name = max(evaluation.get("difference", {}), key=lambda name: int(name.partition("@")[2]), default=None)
    if name is None or evaluation["difference"][name].high >= 0:
        return []
    change = evaluation["difference"][name]
    before, after = (evaluation[when]["prover"].get(name) for when in ("before", "after"))
    values = f" from {before.value:.3f} to {after.value:.3f}" if before and after else ""
    tries = name.partition("@")[2]
    return [
        f"The prover lost coverage: {name} fell{values} ({change.difference:+.3f} [{change.low:+.3f}, "
        f"{change.high:+.3f}]). With {tries} answers each it solves fewer held-out problems than before training."
    ]


def _inside(value: float, bounds: Range) -> bool:
    return bounds[0] <= value <= bounds[1]


def _sentence(metric: Metric, value: float, late: bool, tripped: bool) -> str:
    when = "in the last fifth of the rounds" if late else "over the run"
    limits = [("healthy", range_text(metric.healthy)), ("the guard's range", range_text(metric.trip or UNBOUNDED))]
    listed = "; ".join(f"{what}: {bounds}" for what, bounds in limits[: 1 + tripped] if bounds)
    return f"{metric.name} was {value:.3g} {when} ({listed})."


def mean(run: Run, metric: str, late: bool = False) -> float | None:
    """Mean over the logged rounds that have the metric, or over those in its last fifth; None without one."""
    values = run.series(metric)
    if late and run.steps:
        start = run.steps[0] + 0.8 * (run.steps[-1] - run.steps[0])
        values = [(step, value) for step, value in values if step >= start]
    return math.fsum(value for _, value in values) / len(values) if values else None
