"""What is not healthy in a run, in words: the thresholds are those of docs/metrics.md."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from .load import Run


@dataclass(frozen=True)
class Limit:
    """A metric's mean over the run, or over its last fifth, compared with a bound."""

    metric: str
    broken: Callable[[float], bool]
    sentence: str  # has a place for the mean
    late: bool = False


LIMITS = (
    Limit(
        "conjecturer/parseable_rate", lambda m: m < 0.9, "Only {:.0%} of the proposals could be read (healthy: 90%)."
    ),
    Limit("conjecturer/unique_rate", lambda m: m < 0.8, "Only {:.0%} of the proposals were distinct (healthy: 80%)."),
    Limit("conjecturer/contamination_rate", lambda m: m > 0.05, "{:.1%} of the proposals were held-out problems."),
    Limit(
        "round/solve_rate_mean", lambda m: m > 0.8, "The problems became too easy: late solve rate {:.2f}.", late=True
    ),
    Limit(
        "round/solve_rate_mean", lambda m: m < 0.1, "The problems became too hard: late solve rate {:.2f}.", late=True
    ),
    Limit("prover/zero_signal_groups", lambda m: m > 0.5, "{:.0%} of the prover's groups gave no signal."),
    Limit("prover/several_answers_rate", lambda m: m > 0.01, "{:.1%} of the answers held several answer tags."),
    Limit("prover/truncated_rate", lambda m: m > 0.01, "{:.1%} of the answers were cut at the token limit."),
    Limit("conjecturer/truncated_rate", lambda m: m > 0.01, "{:.1%} of the proposals were cut at the token limit."),
    Limit("prover/entropy", lambda m: m < 0.05, "The prover's entropy fell to {:.3f} nats per token.", late=True),
    Limit(
        "conjecturer/entropy",
        lambda m: m < 0.05,
        "The conjecturer's entropy fell to {:.3f} nats per token.",
        late=True,
    ),
    Limit("prover/importance_clamped", lambda m: m > 0.05, "{:.0%} of the prover's importance weights were clamped."),
)


def findings(run: Run) -> list[str]:
    """One sentence per broken limit, the gravest first; empty for a healthy run."""
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
    for limit in LIMITS:
        value = mean(run, limit.metric, late=limit.late)
        if value is not None and limit.broken(value):
            found.append(limit.sentence.format(value))
    if not run.rounds:
        found.append("No round was logged.")
    return found


def mean(run: Run, metric: str, late: bool = False) -> float | None:
    """Mean over the logged rounds that have the metric, or over those in its last fifth; None without one."""
    values = run.series(metric)
    if late and run.steps:
        start = run.steps[0] + 0.8 * (run.steps[-1] - run.steps[0])
        values = [(step, value) for step, value in values if step >= start]
    return math.fsum(value for _, value in values) / len(values) if values else None
