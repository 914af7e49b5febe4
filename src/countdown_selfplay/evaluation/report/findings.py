"""What is not healthy in a run, in words, each with what to do about it: metrics outside the ranges that the run
declared (docs/metrics.md), lost coverage, rollbacks. It is at the top of the report and above a run's table on the
terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...contract.metric import UNBOUNDED, Metric, Range, range_text
from .load import Run

FEW = 3
"""Rounds that a judgement on the end of a run needs."""


def findings(run: Run) -> list[str]:
    """One sentence per metric that is not healthy, the gravest first; empty for a healthy run."""
    found = []
    starved = run.series("round/starved")
    share = mean(run, "round/starved")
    if share:
        what = f"{share:.0%} of {len(starved)} logged rounds"
        cure = next((metric.cure for metric in run.metrics if metric.name == "round/starved"), "")
        found.append(f"The conjecturer was starved: in {what} none of its problems was played. {cure}".rstrip())
    found += lost_coverage(run.evaluation)
    for record in run.rollbacks:
        found.append(
            f"The collapse guard rolled back at round {record.get('step', '?')} to {record.get('to', '?')}: "
            f"{record.get('trip', 'no reason was written')}. {_cure_of_trip(record, run)}".rstrip()
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
    if not run.rounds and run.config.get("logging_strategy") != "no":
        found.append("No round was logged. Leave `logging_strategy` at steps; the first line follows a round.")
    return found + cost_of_the_conjecturer(run)


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
        f"{change.high:+.3f}]). With {tries} answers each it solves fewer held-out problems than before training. "
        "Raise `prover_entropy_coef`, take the objective `maxrl` or `pass_at_k`, or ask for harder problems."
    ]


def cost_of_the_conjecturer(run: Run) -> list[str]:
    """A sentence for each pass@k that the control has more of, with an interval that excludes 0."""
    return [
        f"The conjecturer cost the prover {name}: {change.difference:+.3f} [{change.low:+.3f}, {change.high:+.3f}] "
        "against the run without it, on as many samples. Take another `conjecturer_reward`, or train the prover alone "
        "(`countdown-selfplay rloo`)."
        for name, change in run.control.get("difference", {}).items()
        if change.high < 0
    ]


def _cure_of_trip(record: Mapping[str, Any], run: Run) -> str:
    """What the metric that tripped asks for; its name begins the reason."""
    name = str(record.get("trip", "")).partition(" ")[0]
    return next((metric.cure for metric in run.metrics if metric.name == name), "")


def _inside(value: float, bounds: Range) -> bool:
    return bounds[0] <= value <= bounds[1]


def _sentence(metric: Metric, value: float, late: bool, tripped: bool) -> str:
    when = "in the last fifth of the rounds" if late else "over the run"
    limits = [("healthy", range_text(metric.healthy)), ("the guard's range", range_text(metric.trip or UNBOUNDED))]
    listed = "; ".join(f"{what}: {bounds}" for what, bounds in limits[: 1 + tripped] if bounds)
    return f"{metric.name} was {value:.3g} {when} ({listed}). {metric.cure}".rstrip()


def mean(run: Run, metric: str, late: bool = False) -> float | None:
    """Mean over the logged rounds that have the metric, or over those in its last fifth; None without one, and for a
    last fifth of fewer than FEW, which chance would judge."""
    values = run.series(metric)
    if late and run.steps:
        start = run.steps[0] + 0.8 * (run.steps[-1] - run.steps[0])
        values = [(step, value) for step, value in values if step >= start]
        values = values if len(values) >= FEW else []
    return math.fsum(value for _, value in values) / len(values) if values else None
