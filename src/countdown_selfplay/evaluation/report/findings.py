"""What is not healthy in a run, in words: metrics outside the ranges that the run declared (docs/metrics.md)."""

from __future__ import annotations

import math

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
