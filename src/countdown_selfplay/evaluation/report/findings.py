"""Findings: the health faults of a run in sentences, each with its cure: metrics outside the ranges that the run
declared (docs/metrics.md), lost coverage, rollbacks. It is at the top of the report and above a run's table on the
terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...contract.metric import UNBOUNDED, Metric, Range, range_text
from .load import Run

_OUT_OF_REACH = ("/too_hard_share", "/zero_signal_groups")
"""Not judged on a ladder (answers in moves, several rungs), which goes on beyond the rungs that are solved."""

FEW = 3
"""Rounds that a judgement on the end of a run needs."""


def _round_of(record: Mapping[str, Any], run: Run) -> str:
    """The round of a record that has an optimizer step."""
    step = record.get("step")
    return f"{step / run.per_round:g}" if isinstance(step, int | float) else "?"


def findings(run: Run) -> list[str]:
    """One sentence per metric that is not healthy, the gravest first; empty for a healthy run."""
    found = []
    starved = run.series("round/starved")
    share = mean(run, "round/starved")
    if share:
        where = f"{share:.0%} of {len(starved)} logged rounds"
        cure = run.declared["round/starved"].cure
        found.append(f"The conjecturer was starved: in {where} none of its problems was played. {cure}".rstrip())
    found += lost_coverage(run.evaluation)
    for record in run.rollbacks:
        trip, cure = _trip_of(record, run)
        found.append(
            f"The collapse guard rolled back at round {_round_of(record, run)} to {record.get('to', '?')}: "
            f"{trip}. {cure}".rstrip()
        )
    said: dict[bool, list[str]] = {True: [], False: []}  # beyond the guard's range; beyond the healthy one alone
    for metric in run.declared.values():
        fault = None if metric.name == "round/starved" else beyond(run, metric)
        if fault is not None:
            said[fault[2]].append(_sentence(metric, *fault))
    found += said[True] + said[False]
    if not run.rounds and run.config.get("logging_strategy") != "no":
        found.append("No round was logged. Leave `logging_strategy` at steps; the first line follows a round.")
    return found + cost_of_the_conjecturer(run)


def healthy_of(run: Run, metric: Metric) -> Range:
    """The range in which the metric is healthy in this run."""
    rungs = sum(name.startswith("round/rung_") and name.endswith("_played") for name in run.names)
    in_moves = any(name.endswith("/moves") for name in run.names)
    return UNBOUNDED if in_moves and rungs > 1 and metric.name.endswith(_OUT_OF_REACH) else metric.healthy


def beyond(run: Run, metric: Metric) -> tuple[float, bool, bool] | None:
    """The mean that is not healthy, whether it is that of the last fifth of the rounds, and whether it is outside the
    guard's range too; None for a healthy metric."""
    for late in (True, False):
        value = mean(run, metric.name, late)
        tripped = value is not None and metric.trip is not None and not _inside(value, metric.trip)
        if value is not None and (tripped or not _inside(value, healthy_of(run, metric))):
            return value, late, tripped
    return None


def subject(metric: Metric) -> str:
    """The metric in words, as the subject of a sentence."""
    if metric.subject:
        return f"the {metric.subject}"
    role, _, rest = metric.name.rpartition("/")
    return f"{'' if role == 'round' else role} {rest.replace('_', ' ')}".strip()


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


def _trip_of(record: Mapping[str, Any], run: Run) -> tuple[str, str]:
    """The reason of a rollback with its metric in words, and the metric's cure; its name begins the reason."""
    name, _, rest = str(record.get("trip", "no reason was written")).partition(" ")
    metric = run.declared.get(name)
    return (f"{name} {rest}", "") if metric is None else (f"{subject(metric)} {rest}", metric.cure)


def _inside(value: float, bounds: Range) -> bool:
    return bounds[0] <= value <= bounds[1]


def _sentence(metric: Metric, value: float, late: bool, tripped: bool) -> str:
    when = "in the last fifth of the rounds" if late else "over the run"
    limits = [("healthy", range_text(metric.healthy)), ("the guard's range", range_text(metric.trip or UNBOUNDED))]
    listed = "; ".join(f"{name}: {bounds}" for name, bounds in limits[: 1 + tripped] if bounds)
    said = subject(metric)
    return f"{said[:1].upper()}{said[1:]} was {value:.3g} {when} ({listed}). {metric.cure}".rstrip()


def mean(run: Run, metric: str, late: bool = False) -> float | None:
    """Mean over the logged rounds that have the metric, or over those in its last fifth; None without one, and for a
    last fifth of fewer than FEW, which chance would judge."""
    values = run.series(metric)
    if late and run.steps:
        start = run.steps[0] + 0.8 * (run.steps[-1] - run.steps[0])
        values = [(step, value) for step, value in values if step >= start]
        values = values if len(values) >= FEW else []
    return math.fsum(value for _, value in values) / len(values) if values else None
