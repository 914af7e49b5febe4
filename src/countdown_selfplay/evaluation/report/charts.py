"""Which metrics are drawn together, and how a metric becomes a curve."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ...errors import CountdownSelfPlayError
from ...rewards import make_conjecturer_reward
from .arms import arms_of, over_seeds
from .load import Run
from .pictures import Curve, Figure, heat_map, line_chart
from .players import of_players
from .solve_counts import solve_count_chart
from .tables import definition

_POINTS = 600  # most points of a curve; in a longer run single rounds are not drawn
_COLUMNS = 60  # most columns of a heat map
_MAPS = 8  # most runs of a comparison that have a heat map each
_BAND_REWARDS = ("tent", "binary_band", "learnability")  # functions of the solve rate alone


@dataclass(frozen=True)
class Chart:
    """A title and the metrics drawn in it, as (metric, label)."""

    title: str
    metrics: tuple[tuple[str, str], ...]
    y_range: tuple[float, ...] = ()
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
        _both("Entropy (nats per token)", "{}/entropy", y_range=(0,)),
        _both("KL to the start (nats per token)", "{}/kl", y_range=(0,)),
        _both("Gradient norm before the clip", "grad_norm/{}", y_range=(0,)),
        _both("Learning rate", "lr/{}", y_range=(0,)),
        _both("Loss", "{}/loss"),
        _both("Importance weights outside the clamp", "{}/importance_clamped", y_range=(0, 0.1)),
    ),
    "Texts and time": (
        _both("Texts cut at the token limit", "{}/truncated_rate", y_range=(0, 0.1)),
        _both("Tokens per text", "{}/completion_length", y_range=(0,)),
        Chart(
            "Seconds per round",
            (
                ("step_time", "whole step"),
                ("time/rollout_prover", "sampling, prover"),
                ("time/rollout_conjecturer", "sampling, conjecturer"),
            ),
            (0,),
        ),
    ),
}


def hints(runs: Sequence[Run], more: Mapping[str, tuple[Chart, ...]] = MappingProxyType({})) -> dict[str, str]:
    """Title of a chart -> the definitions of the metrics in it."""
    found = {}
    for chart in _charts(runs, more):
        for metric, label in chart.metrics:
            found[f"{chart.title}: {label}"] = definition(metric, runs)
        found[chart.title] = "\n".join(definition(metric, runs) for metric, _ in chart.metrics)
    return found


def metrics_of(runs: Sequence[Run], more: Mapping[str, tuple[Chart, ...]] = MappingProxyType({})) -> set[str]:
    """The metrics that charts show."""
    return {metric for chart in _charts(runs, more) for metric, _ in chart.metrics}


def quiet(runs: Sequence[Run], more: Mapping[str, tuple[Chart, ...]] = MappingProxyType({})) -> list[str]:
    """Titles of the charts that are not drawn, for all that they would show is 0 in every round of every run."""
    return [chart.title for chart in _charts(runs, more) if chart.title and _is_quiet(chart, runs)]


def _charts(runs: Sequence[Run], more: Mapping[str, tuple[Chart, ...]]) -> list[Chart]:
    return [by_player(chart, runs) for charts in {**more, **SECTIONS}.values() for chart in charts]


def by_player(chart: Chart, runs: Sequence[Run]) -> Chart:
    """The chart with a metric for each player of a pool."""
    return replace(chart, metrics=tuple(pair for one in chart.metrics for pair in of_players(*one, runs)))


def _is_quiet(chart: Chart, runs: Sequence[Run]) -> bool:
    values = [value for run in runs for metric, _ in chart.metrics for _, value in run.series(metric)]
    return bool(values) and not any(values)


def drawn(
    runs: Sequence[Run], more: Mapping[str, tuple[Chart, ...]] = MappingProxyType({})
) -> dict[str, dict[str, Figure]]:
    """Every chart of one run, or of several in comparison, by section and title. `more`: sections before these."""
    found: dict[str, dict[str, Figure]] = {}
    for section, charts in {**more, **SECTIONS}.items():
        found[section] = {}
        for chart in charts:
            found[section] |= draw(chart, runs[0]) if len(runs) == 1 else compare(chart, runs)
    for run in runs if len(runs) <= _MAPS else ():
        title = "Solve rates of conjectured problems" if len(runs) == 1 else f"Solve rates: {run.name}"
        found["Curriculum"] |= solve_rate_map(run, title)
    found["Prover"] |= solve_count_chart(runs)
    return found


def draw(chart: Chart, run: Run) -> dict[str, Figure]:
    """The chart of one run, one curve per metric; {} if the run has none of the metrics, or only zeros."""
    chart = by_player(chart, [run])
    if _is_quiet(chart, [run]):
        return {}
    curves = [curve([run], metric, label) for metric, label in chart.metrics]
    band = target_band(run) if chart.band else None
    return _unless_empty(chart.title, curves, y_range=chart.y_range, band=band, marks=run.starved * chart.marks)


def compare(chart: Chart, runs: Sequence[Run]) -> dict[str, Figure]:
    """One chart per metric with one curve per run, by title; runs that differ only in the seed are one curve with a
    band."""
    found: dict[str, Figure] = {}
    chart, arms = by_player(chart, runs), arms_of(runs)
    for metric, label in () if _is_quiet(chart, runs) else chart.metrics:
        title = chart.title if len(chart.metrics) == 1 else f"{chart.title}: {label}"
        curves = [curve(arm.runs, metric, arm.name, chart.y_range == SHARE, raw=False) for arm in arms]
        bands = {target_band(run) for run in runs} if chart.band and label == "conjectured" else {None}
        band = bands.pop() if len(bands) == 1 else None  # runs with different targets share no band
        found |= _unless_empty(title, curves, y_range=chart.y_range, band=band)
    return found


def curve(runs: Sequence[Run], metric: str, label: str, share: bool = False, raw: bool = True) -> Curve:
    """The running mean of the metric's rounds, NaN where rounds lack it, and with `raw` the single rounds. Of several
    runs the mean of their running means, with `over_seeds` as a band where two or more have a value; the band of a
    `share` is clipped to [0, 1]."""
    columns = [_column(run, metric) for run in runs]
    x = np.unique(np.concatenate([at for at, _, _ in columns]))
    values_RX = np.full((len(runs), len(x)), np.nan)
    for values_X, (at, means, _) in zip(values_RX, columns, strict=True):
        values_X[np.searchsorted(x, at)] = means
    known_X = np.isfinite(values_RX).sum(axis=0)
    y = np.where(known_X > 0, np.nansum(values_RX, axis=0) / np.maximum(known_X, 1), np.nan)
    # Of a long run every n-th value, and the last one before each gap.
    last = np.isnan(np.append(y[1:], np.nan))
    kept = np.isnan(y) | last | (np.arange(len(x)) % max(1, -(-len(x) // _POINTS)) == 0)
    x, y, values_RX = x[kept], y[kept], values_RX[:, kept]
    if len(runs) == 1:
        single = columns[0][2]
        return Curve(label, x, y, single if raw and single is not None and len(single) <= _POINTS else None)
    known = [values_R[np.isfinite(values_R)].tolist() for values_R in values_RX.T]
    ends = [over_seeds(found) if len(found) > 1 else None for found in known]
    low, high = (np.array([np.nan if end is None else getattr(end, side) for end in ends]) for side in ("low", "high"))
    return Curve(label, x, y, None, np.maximum(low, 0) if share else low, np.minimum(high, 1) if share else high)


def solve_rate_map(run: Run, title: str) -> dict[str, Figure]:
    """Rounds across, solve rate upwards, share of the round's problems as shade; rounds are put together where there
    are many. {} without a histogram. Rounds with another number of bins than the last one are left out."""
    steps = run.steps
    size = max(1, -(-len(steps) // _COLUMNS))
    starts = [step / run.per_round for step in steps[::size]]
    bins = len(run.histograms[max(run.histograms)]) if run.histograms else 1
    counts_CB = np.zeros((len(starts), bins))
    for i, step in enumerate(steps):
        found = run.histograms.get(step, [])
        counts_CB[i // size] += found if len(found) == bins else 0
    total_C = counts_CB.sum(axis=1, keepdims=True)
    if not total_C.any():
        return {}
    shares_CB = np.where(total_C > 0, counts_CB / np.maximum(total_C, 1), np.nan)
    return {title: heat_map(title, starts, steps[-1] / run.per_round + 1, shares_CB)}


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


def window(run: Run) -> int:
    """Rounds on each side of a running mean: 2.5% of the run, none in a short one."""
    rounds = len(run.rounds)
    return 0 if rounds < 20 else max(1, round(rounds / 40))


def window_text(run: Run) -> str:
    """What bold and thin lines are, in words."""
    width = window(run)
    if width == 0:
        return ""
    thin = "Thin: single rounds; bold" if len(run.rounds) <= _POINTS else "Bold"
    return f"{thin}: mean over {width} round{'s' * (width > 1)} on each side, of those that have a value."


def _column(run: Run, metric: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Rounds, running means of the metric over the rounds around each that have it, and the values if they differ."""
    in_rounds = metric in run.names
    rows = run.rounds if in_rounds else [row for row in run.others if metric in row]
    at = np.array([row["step"] for row in rows]) / run.per_round
    values = np.array([row.get(metric, np.nan) for row in rows])
    if not in_rounds or window(run) == 0:
        return at, values, None
    has = np.isfinite(values)
    around = np.ones(2 * window(run) + 1)
    means = np.convolve(np.where(has, values, 0), around, "same") / np.maximum(np.convolve(has, around, "same"), 1)
    return at, np.where(has, means, np.nan), values


def _unless_empty(title: str, curves: list[Curve], **options: Any) -> dict[str, Figure]:
    empty = all(np.isnan(one.y).all() for one in curves)
    return {} if empty else {title: line_chart(title, curves, **options)}
