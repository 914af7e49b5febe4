"""What a report says of a run in sentences: the verdict in one line, which says no more than the intervals do, and the
health faults, each with its cure: metrics outside the ranges that the run declared (docs/metrics.md), lost coverage,
rollbacks. Both are at the top of the report and above a run's table on the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...contract.metric import UNBOUNDED, Metric, Range, range_text
from ...statistics.bootstrap import Interval, independent_difference
from ..compare import Comparison
from .load import Run

BETTER, WORSE, MIXED, UNCLEAR = "better", "worse", "mixed", "no change shown"
UNFINISHED, UNMEASURED = "not finished", "not measured"

_OUT_OF_REACH = ("/too_hard_share", "/zero_signal_groups")
"""Not judged on a ladder (answers in moves, several rungs), which goes on beyond the rungs that are solved."""

FEW = 3
"""Rounds that a judgement on the end of a run needs."""


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
        at = f"{record['step'] / run.per_round:g}" if isinstance(record.get("step"), int | float) else "?"
        rolled = f"The collapse guard rolled back at round {at} to {record.get('to', '?')}"
        found.append(f"{rolled}: {trip}. {cure}".rstrip())
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
        f"The prover lost coverage: {name} fell{values} ({change}). "
        f"With {tries} answers each it solves fewer held-out problems than before training. "
        "Raise `prover_entropy_coef`, take the objective `maxrl` or `pass_at_k`, or ask for harder problems."
    ]


def cost_of_the_conjecturer(run: Run) -> list[str]:
    """A sentence for each pass@k that the control has more of, with an interval that excludes 0."""
    return [
        f"The conjecturer cost the prover {name}: {change} against the run without it, on as many samples. "
        "Take another `conjecturer_reward`, or train the prover alone (`countdown-selfplay rloo`)."
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


@dataclass(frozen=True)
class Judgement:
    """`word`: better, worse, mixed, no change shown, or that nothing can be said yet. `text`: the numbers for it."""

    word: str
    text: str

    def __str__(self) -> str:
        return f"{self.word[:1].upper()}{self.word[1:]}: {self.text}"


def verdict(run: Run) -> Judgement:
    """The prover before and after training in pass@k of the least and the greatest k, the control if there is one, and
    the rates of the conjecturers that have changed."""
    changes = _ends(run.evaluation.get("difference", {}))
    if not changes:
        return _unmeasured(run)
    sides = [run.evaluation[when]["prover"] for when in ("before", "after")]
    parts, word = [], _word(changes)
    for name, change in changes.items():
        before, after = (side.get(name) for side in sides)
        moved = f" from {before.value:.3f} to {after.value:.3f}" if before and after else ""
        done = {1: " rose", -1: " fell", 0: "" if word == UNCLEAR else ": no change shown,"}[_sign(change)]
        parts.append(f"{name}{done}{moved} ({change})")
    text = f"{'; '.join(parts)} on {run.evaluation['after']['problems']} held-out problems, against before training."
    if word == UNCLEAR:
        name, least = next(iter(changes.items()))
        text += f" A change in {name} of less than about {(least.high - least.low) / 2:.3f} would not show here."
    return Judgement(word, " ".join(filter(None, (text, _credit(run, word), _conjecturers(run.evaluation)))))


def _conjecturers(evaluation: Mapping[str, Any]) -> str:
    """A sentence for each conjecturer with a rate whose difference is not 0; "" where none has changed."""
    said = []
    for role in (role for role in evaluation["after"] if role.startswith("conjecturer")):
        before, after = (evaluation[when].get(role, {}) for when in ("before", "after"))
        moved = {name: independent_difference(before[name], after[name]) for name in after if name in before}
        parts = [
            f"{name.replace('_', ' ')} {'rose' if _sign(change) > 0 else 'fell'} from {before[name].value:.3f} to "
            f"{after[name].value:.3f}"
            for name, change in moved.items()
            if _sign(change)
        ]
        said += [f"Rates of {role}: {', '.join(parts)}."] * bool(parts)
    return " ".join(said)


def verdict_of_arms(found: Comparison | str | None) -> Judgement | None:
    """Of several runs: which arms differ from the first one in pass@1, by the intervals that cover all differences.
    `found`: a sentence says why they are not compared."""
    if found is None or isinstance(found, str):
        return None if found is None else Judgement("not compared", found)
    k = found.ks[0]
    own = [d for d in found.differences if d.k == k]
    told = [(d.arm, d.bonferroni) for d in own if _sign(d.bonferroni)]
    said = [
        f"{arm} {'above' if _sign(d) > 0 else 'below'} by {abs(d.difference):.3f} [{d.low:+.3f}, {d.high:+.3f}]"
        for arm, d in told
    ]
    rest = len(own) - len(told)
    if rest:
        said.append(f"no difference shown for {rest} of {len(own)} arms" if len(own) > 1 else "no difference shown")
    words = f"pass@{k} after training, against {found.arms[0]} on {found.problems} common problems"
    return Judgement("compared", f"{words}: {'; '.join(said)}.")


def _unmeasured(run: Run) -> Judgement:
    each, total, last = run.per_round, run.config.get("max_steps"), run.steps[-1] if run.steps else 0
    if not last:
        return Judgement(UNFINISHED, "no round was logged yet.")
    ended = any("train_runtime" in row for row in run.others)
    if ended or not isinstance(total, int) or last >= total:
        return Judgement(
            UNMEASURED,
            "the run has no evaluation before and after training (`eval_problems`); `countdown-selfplay eval` scores "
            "its prover.",
        )
    scores = next((row for row in reversed(run.others) if "eval_pass@1" in row), None)
    said = "" if scores is None else f"; pass@1 was {scores['eval_pass@1']:.3f} at round {int(scores['step']) // each}"
    return Judgement(UNFINISHED, f"round {last // each} of {total // each} is the last one that was logged{said}.")


def _credit(run: Run, word: str) -> str:
    """The conjecturer's part in the change: the control, or that there is none."""
    parts = []
    for name, change in _ends(run.control.get("difference", {})).items():
        side = {1: "higher", -1: "lower"}.get(_sign(change))
        words = f"{name} is {side} with the conjecturer" if side else f"no difference shown in {name}"
        parts.append(f"{words} ({change})")
    if parts:
        return f"Against the control without a conjecturer: {'; '.join(parts)}."
    if word in (BETTER, MIXED) and any(name.startswith("conjecturer/") for name in run.names):
        return "No control was run: the same command with `--control` says how much of this the conjecturer made."
    return ""


def _ends(changes: Mapping[str, Any]) -> dict[str, Interval]:
    """Those of the least and the greatest k."""
    names: Sequence[str] = sorted(changes, key=lambda name: int(name.partition("@")[2]))
    return {name: changes[name] for name in (*names[:1], *names[1:][-1:])}


def _sign(change: Interval) -> int:
    """0 where the interval has 0 in it."""
    return (change.low > 0) - (change.high < 0)


def _word(changes: Mapping[str, Interval]) -> str:
    signs = set(map(_sign, changes.values()))
    if {1, -1} <= signs:
        return MIXED
    return BETTER if 1 in signs else WORSE if -1 in signs else UNCLEAR
