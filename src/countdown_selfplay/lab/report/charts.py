"""Charts from the declarations of metrics: curves, and arms, runs that differ only in the seed and have one curve."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os.path import commonprefix
from typing import Any

import numpy as np

from ...contract.metric import SHARE, Metric
from ...errors import CountdownSelfPlayError
from ...evaluation.load import Run
from ...rewards import make_conjecturer_reward
from ...statistics.bootstrap import Estimate, t_interval
from .pictures import Curve, Figure, line_chart

# Fields that differ between any two runs and say nothing about the setting.
PLACES = {"output_dir", "run_name", "logging_dir", "project"}
PLACES |= {"generation_batch_size", "gradient_accumulation_steps", "steps_per_generation"}  # derived from others
SEEDS = {"seed", "data_seed"}
BAND = "Mean over the seeds of an arm, with the 95% t interval of the mean over seeds (of two seeds their range)."
T_FROM = 3  # seeds from which a t interval is drawn; of two it would be 13 standard deviations wide
_POINTS = 600  # most points of a curve; in a longer run single rounds are not drawn
_COMPARED = 20  # most metrics of a chart that are compared
_BAND_REWARDS = ("tent", "binary_band", "learnability")  # functions of the solve rate alone
_CONJECTURED, _SLOTS = "round/solve_rate_mean", "round/conjectured_slots"
_LINES = {"targets/problem_size": "targets/set_size", "targets/problem_complex": "targets/set_complex"}
"""Metric -> the target set's value, a line in the chart of several runs (SGS, figure 2)."""


@dataclass
class RunArm:
    """Setting and its runs, one per seed."""

    name: str
    runs: list[Run]


def arms_of(runs: Sequence[Run]) -> list[RunArm]:
    """Return the runs grouped by setting, in the order of their first runs. Runs of one setting and one seed stay
    separate: they are repetitions, or differ in something outside the config."""
    groups: dict[str, list[Run]] = {}
    for i, run in enumerate(runs):
        rest = {name: value for name, value in run.config.items() if name not in PLACES | SEEDS}
        groups.setdefault(json.dumps(rest, sort_keys=True, default=str) if run.config else str(i), []).append(run)
    arms: list[RunArm] = []
    for group in groups.values():
        seeds = [run.config.get("seed") for run in group]
        if len(group) > 1 and len(set(seeds)) == len(seeds) and None not in seeds:
            start = commonprefix([run.name for run in group])  # noqa: RUF071 - names, and not paths
            start = start.rstrip("0123456789").rstrip("-_./ ").removesuffix("seed").rstrip("-_./ ")
            arms.append(RunArm(f"{start or group[0].name} ({len(group)} seeds)", group))
        else:
            arms += [RunArm(run.name, [run]) for run in group]
    names = [arm.name for arm in arms]
    for i, arm in enumerate(arms, start=1):
        arm.name = arm.name if names.count(arm.name) == 1 else f"{arm.name}, {i}"
    order = {id(run): i for i, run in enumerate(runs)}
    return sorted(arms, key=lambda arm: order[id(arm.runs[0])])


def over_seeds(values: Sequence[float]) -> Estimate:
    """Return the mean with a 95% t interval from three seeds on, with lowest and highest value of two."""
    if len(values) >= T_FROM:
        return t_interval(values)
    return Estimate(float(np.mean(values)), min(values), max(values))


def band_text(arms: Sequence[RunArm]) -> str:
    """Describe the intervals over seeds; "" without one."""
    return BAND if any(len(arm.runs) > 1 for arm in arms) else ""


@dataclass(frozen=True)
class Chart:
    """Title and the metrics drawn in it, as (metric, label)."""

    title: str
    metrics: tuple[tuple[str, str], ...]
    view: tuple[float, ...] = ()
    section: str = ""


def declared_in(runs: Sequence[Run]) -> dict[str, Metric]:
    """Return the declarations of all logged metrics, of several runs the first one's."""
    declared: dict[str, Metric] = {}
    for run in reversed(runs):
        declared = run.declared | {name: metric for name, metric in declared.items() if name not in run.declared}
    return declared


def charts_of(runs: Sequence[Run]) -> list[Chart]:
    """Return a chart for each title of a panel, in the order of the declarations."""
    charts: dict[str, Chart] = {}
    for name, metric in declared_in(runs).items():
        panel = metric.panel
        if panel is not None and panel.title:
            before = charts.get(panel.title, Chart(panel.title, (), panel.view, panel.section))
            metrics = (*before.metrics, (name, panel.label or name))
            charts[panel.title] = Chart(panel.title, metrics, before.view, before.section)
    return list(charts.values())


def is_quiet(metrics: Iterable[tuple[str, str]], runs: Sequence[Run]) -> bool:
    """Return whether all values of a chart's metrics are 0, so that it is not drawn."""
    return not any(value for run in runs for metric, _ in metrics for _, value in run.series(metric))


def figures(chart: Chart, runs: Sequence[Run]) -> dict[str, Figure]:
    """Return a curve per metric of one run. Of several a chart per metric with a curve per run or arm, with a band;
    a chart of many metrics, such as one for each operand count, is not drawn."""
    drawn: dict[str, Figure] = {}
    bands = {target_band(run) for run in runs}
    band = bands.pop() if len(bands) == 1 else None  # runs with different targets share no band
    if len(runs) == 1:
        if is_quiet(chart.metrics, runs):
            return {}
        names, curves = {metric for metric, _ in chart.metrics}, [curve(runs, *pair) for pair in chart.metrics]
        band = band if _CONJECTURED in names else None
        marks = runs[0].starved if names & {_CONJECTURED, _SLOTS} else []
        return lines_of(chart.title, curves, y_range=chart.view, band=band, marks=marks)
    constants = [_LINES[metric] for metric, _ in chart.metrics if metric in _LINES]
    shown = [pair for pair in chart.metrics if pair[0] not in constants]
    for metric, label in shown if len(shown) <= _COMPARED else ():
        if is_quiet([(metric, label)], runs):
            continue
        curves = [curve(arm.runs, metric, arm.name, chart.view == SHARE, raw=False) for arm in arms_of(runs)]
        x = np.concatenate([one.x for one in curves])
        for constant in constants:
            value = next((series[0][1] for run in runs if (series := run.series(constant))), np.nan)
            curves.append(Curve("the target set", np.array([x.min(), x.max()]), np.full(2, value)))
        title = chart.title if len(shown) == 1 else f"{chart.title}: {label}"
        drawn |= lines_of(title, curves, y_range=chart.view, band=band if metric == _CONJECTURED else None)
    return drawn


def lines_of(title: str, curves: Sequence[Curve], **options: Any) -> dict[str, Figure]:
    """Return the line chart by its title; {} without a curve with a point."""
    empty = all(np.isnan(one.y).all() for one in curves)
    return {} if empty else {title: line_chart(title, curves, **options)}


def curve(runs: Sequence[Run], metric: str, label: str, share: bool = False, raw: bool = True) -> Curve:
    """Return the running mean of the metric's rounds, NaN where rounds lack it, and with `raw` the single rounds. Of
    several runs the mean of their running means, with `over_seeds` as a band where two or more have a value; the band
    of a `share` is clipped to [0, 1]."""
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
    ends = [over_seeds(one) if len(one) > 1 else None for one in known]
    low, high = (np.array([np.nan if end is None else getattr(end, side) for end in ends]) for side in ("low", "high"))
    low, high = (np.maximum(low, 0), np.minimum(high, 1)) if share else (low, high)
    return Curve(label, x, y, None, low, high)


def target_band(run: Run) -> tuple[float, float] | None:
    """Return the solve rates with at least half of the largest reward; None if more matters to it."""
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


def _column(run: Run, metric: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return rounds, running means of the metric over 2.5% of the run on each side, and the values if they differ: not
    in a run below 20 rounds."""
    in_rounds, rounds = metric in run.names, len(run.rounds)
    rows = run.rounds if in_rounds else [row for row in run.others if metric in row]
    at = np.array([row["step"] for row in rows])
    values = np.array([row.get(metric, np.nan) for row in rows])
    if not in_rounds or rounds < 20:
        return at, values, None
    has = np.isfinite(values)
    around = np.ones(2 * max(1, round(rounds / 40)) + 1)
    means = np.convolve(np.where(has, values, 0), around, "same") / np.maximum(np.convolve(has, around, "same"), 1)
    return at, np.where(has, means, np.nan), values
