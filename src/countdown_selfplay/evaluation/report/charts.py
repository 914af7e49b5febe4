"""Which metrics are drawn together, and how a metric becomes a curve."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import CountdownSelfPlayError
from ...rewards import make_conjecturer_reward
from .arms import RunArm, arms_of, over_seeds
from .load import Run
from .svg import Line, Segment, heat_map, line_chart

RAW_LIMIT = 600  # rounds above which single rounds are not drawn
_POINTS = 400  # most points of a bold curve
_COLUMNS = 60  # most columns of a heat map
_BAND_REWARDS = ("tent", "binary_band", "learnability")  # functions of the solve rate alone


@dataclass(frozen=True)
class Chart:
    """A title and the metrics drawn in it, as (metric, label)."""

    title: str
    metrics: tuple[tuple[str, str], ...]
    y_range: tuple[float, float] | None = None
    band: bool = False
    marks: bool = False


def _both(title: str, metric: str, **kwargs: Any) -> Chart:
    """A chart of both roles; `metric` has a place for the role."""
    return Chart(title, tuple((metric.format(role), role) for role in ("prover", "conjecturer")), **kwargs)


SHARE = (0.0, 1.0)
SECTIONS: dict[str, tuple[Chart, ...]] = {
    "Curriculum": (
        Chart(
            "Solve rate of the problems",
            (("round/solve_rate_mean", "conjectured"), ("round/anchor_solve_rate_mean", "anchors")),
            SHARE,
            band=True,
            marks=True,
        ),
        Chart(
            "The conjecturer's proposals",
            tuple((f"conjecturer/{name}_rate", name) for name in ("parseable", "solvable", "unique", "admitted")),
            SHARE,
        ),
        Chart("Too easy, too hard", (("round/too_easy_share", "easy"), ("round/too_hard_share", "hard")), SHARE),
        Chart(
            "Problems played",
            (("round/conjectured_slots", "conjectured"), ("round/anchor_slots", "anchors")),
            (0, 1),
            marks=True,
        ),
        Chart("Starved rounds", (("round/starved", "starved"),), SHARE),
        Chart("Conjecturer's reward", (("conjecturer/reward", "mean"), ("conjecturer/reward_std", "std"))),
        Chart("Proposals that are held-out problems", (("conjecturer/contamination_rate", "share"),), (0, 0.1)),
    ),
    "Prover": (
        Chart("Prover's reward", (("prover/reward", "mean"), ("prover/reward_std", "std"))),
        Chart("Correct answers", (("prover/correct_rate", "share"),), SHARE),
        Chart("pass@k in training", tuple((f"eval_pass@{k}", f"pass@{k}") for k in (1, 4, 8, 16)), SHARE),
        Chart("Groups without signal", (("prover/zero_signal_groups", "share"),), SHARE),
        Chart("Answers with several tags", (("prover/several_answers_rate", "share"),), (0, 0.1)),
    ),
    "Optimisation": (
        _both("Entropy (nats per token)", "{}/entropy", y_range=(0, 0)),
        _both("KL to the start (nats per token)", "{}/kl", y_range=(0, 0)),
        _both("Gradient norm before the clip", "grad_norm/{}", y_range=(0, 0)),
        _both("Learning rate", "lr/{}", y_range=(0, 0)),
        _both("Loss", "{}/loss"),
        _both("Importance weights outside the clamp", "{}/importance_clamped", y_range=(0, 0.1)),
    ),
    "Texts and time": (
        _both("Texts cut at the token limit", "{}/truncated_rate", y_range=(0, 0.1)),
        _both("Tokens per text", "{}/completion_length", y_range=(0, 0)),
        Chart(
            "Seconds per round",
            (
                ("step_time", "whole step"),
                ("time/rollout_prover", "sampling, prover"),
                ("time/rollout_conjecturer", "sampling, conjecturer"),
            ),
            (0, 0),
        ),
    ),
}


def draw(chart: Chart, run: Run) -> str | None:
    """The chart of one run, one curve per metric; None if the run has none of the metrics."""
    lines = [curve(run, metric, label, i) for i, (metric, label) in enumerate(chart.metrics)]
    if not any(line.points for line in lines):
        return None
    band = target_band(run) if chart.band else None
    return line_chart(chart.title, lines, y_range=chart.y_range, band=band, marks=run.starved if chart.marks else ())


def compare(chart: Chart, runs: Sequence[Run]) -> list[str]:
    """One chart per metric with one curve per run; runs that differ only in the seed are one curve with a band."""
    drawn = []
    arms = arms_of(runs)
    for metric, label in chart.metrics:
        lines = [
            curve(arm.runs[0], metric, arm.name, i, raw=False)
            if len(arm.runs) == 1
            else seeds_curve(arm, metric, i, chart.y_range)
            for i, arm in enumerate(arms)
        ]
        if any(line.points for line in lines):
            title = chart.title if len(chart.metrics) == 1 else f"{chart.title}: {label}"
            bands = {target_band(run) for run in runs} if chart.band and label == "conjectured" else {None}
            band = next(iter(bands)) if len(bands) == 1 else None  # runs with different targets share no band
            drawn.append(line_chart(title, lines, y_range=chart.y_range, band=band))
    return drawn


def curve(run: Run, metric: str, label: str, color: int, raw: bool = True) -> Line:
    """The metric's rounds and their running mean. Where rounds lack the metric both have a gap."""
    points: Segment = [(float(step), value) for step, value in run.series(metric)]
    if not points:
        return Line(label, [], [], color)
    in_rounds = any(metric in row for row in run.rounds)
    segments = _segments(points, run.steps) if in_rounds else [points]
    width = _window(len(run.rounds)) if in_rounds else 0
    if width == 0:
        return Line(label, segments, [], color)
    means = dict(_running_mean(points, run.steps, width))
    bold = [[(x, means[x]) for x, _ in segment] for segment in segments]
    keep = -(-len(points) // _POINTS)
    bold = [_thinned(segment, keep) for segment in bold]
    return Line(label, bold, segments if raw and len(points) <= RAW_LIMIT else [], color)


def seeds_curve(arm: RunArm, metric: str, color: int, y_range: tuple[float, float] | None = None) -> Line:
    """Mean over the runs that have a value at a step, with a band where at least two have: `over_seeds` of their
    running means. In a chart of shares the band is clipped to [0, 1]."""
    values: dict[float, list[float]] = {}
    in_rounds = False
    for run in arm.runs:
        points: Segment = [(float(step), value) for step, value in run.series(metric)]
        if points and any(metric in row for row in run.rounds):
            in_rounds = True
            width = _window(len(run.rounds))
            points = _running_mean(points, run.steps, width) if width else points
        for x, y in points:
            values.setdefault(x, []).append(y)
    if not values:
        return Line(arm.name, [], [], color)
    steps = sorted({step for run in arm.runs for step in run.steps})
    at: Segment = [(x, math.fsum(values[x]) / len(values[x])) for x in sorted(values)]
    segments = _segments(at, steps) if in_rounds else [at]
    keep = -(-len(at) // _POINTS)
    mean, spread = [], []
    for segment in segments:
        segment = _thinned(segment, keep)
        mean.append(segment)
        ends = [(x, over_seeds(values[x])) for x, _ in segment if len(values[x]) > 1]
        low, high = (0.0, 1.0) if y_range == SHARE else (-math.inf, math.inf)
        spread.append([(x, max(found.low, low), min(found.high, high)) for x, found in ends])
    return Line(arm.name, mean, [], color, [part for part in spread if part])


def solve_rate_map(run: Run, title: str = "Solve rates of conjectured problems") -> str | None:
    """Rounds across, solve rate upwards, share of the round's problems as shade; rounds are put together where there
    are many. None without a histogram."""
    if not run.histograms:
        return None
    steps = run.steps
    size = -(-len(steps) // _COLUMNS)
    columns: list[tuple[float, list[float] | None]] = []
    for start in range(0, len(steps), size):
        counts = [run.histograms[s] for s in steps[start : start + size] if s in run.histograms]
        total = np.sum(counts, axis=0) if counts else np.zeros(1)
        columns.append((steps[start], (total / total.sum()).tolist() if total.sum() > 0 else None))
    if all(shares is None for _, shares in columns):
        return None
    return heat_map(title, columns, steps[-1] + 1)


def target_band(run: Run) -> tuple[float, float] | None:
    """Solve rates that earn the conjecturer at least half of the greatest reward; None for a reward that depends on
    more than the solve rate."""
    name = run.config.get("conjecturer_reward")
    arguments = run.config.get("conjecturer_reward_kwargs") or {}
    if name not in _BAND_REWARDS:
        return None
    try:
        arguments = json.loads(arguments) if isinstance(arguments, str) else dict(arguments)
        reward: Any = make_conjecturer_reward(name, arguments)
    except (CountdownSelfPlayError, ValueError, TypeError):  # written by another version: the chart has no band then
        return None
    solve_rate = np.linspace(0, 1, 1001)
    reward_P = reward(solve_rate, None)
    inside = solve_rate[reward_P >= reward_P.max() / 2 - 1e-9]
    return float(inside[0]), float(inside[-1])


def file_name(title: str) -> str:
    """A file name without spaces or marks for a chart's title."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _window(rounds: int) -> int:
    """Rounds on each side of a running mean: 2.5% of the run, none in a short one."""
    return 0 if rounds < 20 else max(1, round(rounds / 40))


def window_text(run: Run) -> str:
    width = _window(len(run.rounds))
    if width == 0:
        return ""
    thin = "thin: single rounds; " if len(run.rounds) <= RAW_LIMIT else ""
    return f"{thin}bold: mean over {width} round{'s' * (width > 1)} on each side, of those that have a value."


def _segments(points: Segment, steps: Sequence[int]) -> list[Segment]:
    """Cut where a logged round lacks the metric."""
    position = {step: i for i, step in enumerate(steps)}
    segments: list[Segment] = []
    last = None
    for x, y in points:
        at = position[int(x)]
        if last is None or at != last + 1:
            segments.append([])
        segments[-1].append((x, y))
        last = at
    return segments


def _running_mean(points: Segment, steps: Sequence[int], width: int) -> Segment:
    """Means over the logged rounds up to `width` away on each side that have a value, one per point."""
    position = {step: i for i, step in enumerate(steps)}
    at = np.array([position[int(x)] for x, _ in points])
    total = np.concatenate([[0.0], np.cumsum([y for _, y in points])])
    low, high = np.searchsorted(at, at - width, "left"), np.searchsorted(at, at + width, "right")
    means = (total[high] - total[low]) / (high - low)
    return [(x, float(mean)) for (x, _), mean in zip(points, means, strict=True)]


def _thinned(segment: Segment, keep: int) -> Segment:
    return segment if keep == 1 else [*segment[:-1:keep], segment[-1]]
