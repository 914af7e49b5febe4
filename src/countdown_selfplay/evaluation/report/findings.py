"""What is not healthy in a run, in words, each with what to do about it: metrics outside the ranges that the run
declared (docs/metrics.md), lost coverage, rollbacks. It is at the top of the report and above a run's table on the
terminal."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from ...contract.metric import UNBOUNDED, Metric, Range, range_text
from .load import Run

LABELS = {  # metric of a kind of player: in words
    "conjecturer/parseable_rate": "parseable",
    "conjecturer/in_range_rate": "in range",
    "conjecturer/solvable_rate": "solvable",
    "conjecturer/unique_rate": "unique",
    "conjecturer/admitted_rate": "admitted",
    "conjecturer/played_rate": "played",
    "conjecturer/contamination_rate": "held-out problems",
    "conjecturer/reward": "conjecturer's reward",
    "conjecturer/signal": "conjecturer has a signal",
    "round/solve_rate_mean": "solve rate",
    "round/too_easy_share": "too easy",
    "round/too_hard_share": "too hard",
    "round/starved": "starved",
    "prover/zero_signal_groups": "groups without signal",
    "prover/correct_rate": "correct answers",
    "prover/truncated_rate": "cut answers",
    "prover/several_answers_rate": "several tags",
}
"""The rows of the health table."""

_SUBJECTS = {  # what a finding is about, where the row of the table is too short for a sentence
    "conjecturer/parseable_rate": "the share of readable proposals",
    "conjecturer/unique_rate": "the share of distinct proposals",
    "conjecturer/contamination_rate": "the share of proposals that are held-out problems",
    "round/solve_rate_mean": "the solve rate of conjectured problems",
    "round/solve_rate_std": "the spread of solve rates",
    "round/too_easy_share": "the share of problems that are too easy",
    "round/too_hard_share": "the share of problems that are too hard",
    "prover/zero_signal_groups": "the share of groups without signal",
    "prover/format_rate": "the share of readable answers",
    "prover/several_answers_rate": "the share of answers with several tags",
    "prover/truncated_rate": "the share of answers cut at the token limit",
    "conjecturer/truncated_rate": "the share of proposals cut at the token limit",
    "prover/unchecked_rate": "the share of answers without a verdict",
}

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
        what = f"{share:.0%} of {len(starved)} logged rounds"
        cure = next((metric.cure for metric in run.metrics if metric.name == "round/starved"), "")
        found.append(f"The conjecturer was starved: in {what} none of its problems was played. {cure}".rstrip())
    found += lost_coverage(run.evaluation)
    for record in run.rollbacks:
        found.append(
            f"The collapse guard rolled back at round {_round_of(record, run)} to {record.get('to', '?')}: "
            f"{_trip_of(record, run)}. {_cure_of_trip(record, run)}".rstrip()
        )
    said: dict[bool, list[str]] = {True: [], False: []}  # beyond the guard's range; beyond the healthy one alone
    for metric in run.metrics:
        fault = None if metric.name == "round/starved" else beyond(run, metric)
        if fault is not None:
            said[fault[2]].append(_sentence(metric, *fault))
    found += said[True] + said[False]
    if not run.rounds and run.config.get("logging_strategy") != "no":
        found.append("No round was logged. Leave `logging_strategy` at steps; the first line follows a round.")
    return found + cost_of_the_conjecturer(run)


def beyond(run: Run, metric: Metric) -> tuple[float, bool, bool] | None:
    """The mean that is not healthy, whether it is that of the last fifth of the rounds, and whether it is outside the
    guard's range too; None for a metric in which nothing is wrong."""
    for late in (True, False):
        value = mean(run, metric.name, late)
        tripped = value is not None and metric.trip is not None and not _inside(value, metric.trip)
        if value is not None and (tripped or not _inside(value, metric.healthy)):
            return value, late, tripped
    return None


def subject(name: str) -> str:
    """What a metric is, as the subject of a sentence; the player of a pool is named."""
    match = re.search(r"(prover|conjecturer)/(\d+)", name)
    of_kind = name if match is None else name.replace(match[0], match[1])
    words = _SUBJECTS.get(of_kind)
    if words is None:
        role, _, rest = of_kind.rpartition("/")
        words = (
            rest.replace("_", " ")
            if match is not None or role in ("round", "")
            else f"{role} {rest.replace('_', ' ')}"
        )
    return words if match is None else f"{words} of {match[0]}"


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


def _trip_of(record: Mapping[str, Any], run: Run) -> str:
    """The reason with the metric's words in place of its name."""
    name, _, rest = str(record.get("trip", "no reason was written")).partition(" ")
    declared = any(metric.name == name for metric in run.metrics)
    return f"{subject(name) if declared else name} {rest}"


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
    what = subject(metric.name)
    return f"{what[:1].upper()}{what[1:]} was {value:.3g} {when} ({listed}). {metric.cure}".rstrip()


def mean(run: Run, metric: str, late: bool = False) -> float | None:
    """Mean over the logged rounds that have the metric, or over those in its last fifth; None without one, and for a
    last fifth of fewer than FEW, which chance would judge."""
    values = run.series(metric)
    if late and run.steps:
        start = run.steps[0] + 0.8 * (run.steps[-1] - run.steps[0])
        values = [(step, value) for step, value in values if step >= start]
        values = values if len(values) >= FEW else []
    return math.fsum(value for _, value in values) / len(values) if values else None
