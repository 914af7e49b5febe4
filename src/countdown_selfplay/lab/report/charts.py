"""Charts from the declarations of a run's metrics: which are drawn together, and how a metric becomes a curve; and the
ladder as a heat map, rung by round: how well each rung is solved, and over it what was proposed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ...contract.metric import SHARE, Metric
from ...errors import CountdownSelfPlayError
from ...evaluation.load import OWN, Run
from ...rewards import make_conjecturer_reward
from .arms import arms_of, over_seeds
from .pictures import Curve, Figure, heat_map, line_chart, rung_map
from .tables import definition

SECTIONS = ("Rungs", "Pool", "Curriculum", "Prover", OWN, "", "Optimisation", "Texts and time", "Targets")
"""Headings in the order of the page; those that it does not name are in place of "", systems' own ones last."""

_POINTS = 600  # most points of a curve; in a longer run single rounds are not drawn
_COLUMNS = 60  # most columns of a heat map
_COMPARED = 20  # most metrics of a chart that are compared
_MAPS = 8  # most runs of a comparison that have a heat map each
_BAND_REWARDS = ("tent", "binary_band", "learnability")  # functions of the solve rate alone
_CONJECTURED, _SLOTS = "round/solve_rate_mean", "round/conjectured_slots"
_LINES = {"targets/problem_size": "targets/set_size", "targets/problem_complex": "targets/set_complex"}
"""Metric -> the target set's own value, a line in the chart of several runs (SGS, figure 2)."""

MEASURED, PLAYED = "Rungs: pass@1 on held-out problems", "Rungs: solve rate of what was played"
_MARKS = 20  # most marks of a map of rungs
_MEASURED = re.compile(r"eval_pass@1/rung_(-?\d+)")
_LOGGED = re.compile(r"round/rung_(-?\d+)_(?:proposed|played)")


@dataclass(frozen=True)
class Chart:
    """A title and the metrics drawn in it, as (metric, label)."""

    title: str
    metrics: tuple[tuple[str, str], ...]
    view: tuple[float, ...] = ()
    section: str = ""


def declared_in(runs: Sequence[Run]) -> dict[str, Metric]:
    """The declarations of all logged metrics, of several runs the first one's."""
    found: dict[str, Metric] = {}
    for run in runs:
        found |= {name: metric for name, metric in run.declared.items() if name not in found}
    return found


def charts_of(runs: Sequence[Run]) -> list[Chart]:
    """A chart for each title of a panel, in the order of the declarations."""
    found: dict[str, Chart] = {}
    for name, metric in declared_in(runs).items():
        panel = metric.panel
        if panel is not None and panel.title:
            before = found.get(panel.title, Chart(panel.title, (), panel.view, panel.section))
            metrics = (*before.metrics, (name, panel.label or name))
            found[panel.title] = Chart(panel.title, metrics, before.view, before.section)
    return list(found.values())


def hints(runs: Sequence[Run]) -> dict[str, str]:
    """Title of a chart -> the definitions of the metrics in it."""
    found: dict[str, str] = {}
    for chart in charts_of(runs):
        texts = [definition(metric, runs) for metric, _ in chart.metrics]
        found |= {f"{chart.title}: {pair[1]}": text for pair, text in zip(chart.metrics, texts, strict=True)}
        found[chart.title] = "\n".join(texts)
    return found


def quiet(runs: Sequence[Run]) -> list[str]:
    """Titles of the charts that are not drawn because all their values are 0."""
    return [chart.title for chart in charts_of(runs) if _is_quiet(chart, runs)]


def _is_quiet(chart: Chart, runs: Sequence[Run]) -> bool:
    return not any(value for run in runs for metric, _ in chart.metrics for _, value in run.series(metric))


def drawn(runs: Sequence[Run]) -> dict[str, dict[str, Figure]]:
    """Every declared chart of one run, or of several in comparison, by section and title; with the heat maps of solve
    rates and the histogram of the evaluation."""
    found: dict[str, dict[str, Figure]] = {"Curriculum": {}, "Prover": {}}
    for chart in charts_of(runs):
        figures = draw(chart, runs[0]) if len(runs) == 1 else compare(chart, runs)
        found.setdefault(chart.section, {}).update(figures)
    for run in runs if len(runs) <= _MAPS else ():
        title = "Solve rates of conjectured problems" if len(runs) == 1 else f"Solve rates: {run.name}"
        found["Curriculum"] |= solve_rate_map(run, title)
    found["Prover"] |= solve_count_chart(runs)
    return found


def draw(chart: Chart, run: Run) -> dict[str, Figure]:
    """The chart of one run, one curve per metric; {} if the run has none of the metrics, or only zeros."""
    if _is_quiet(chart, [run]):
        return {}
    names = {metric for metric, _ in chart.metrics}
    curves = [curve([run], metric, label) for metric, label in chart.metrics]
    band = target_band(run) if _CONJECTURED in names else None
    marks = run.starved if names & {_CONJECTURED, _SLOTS} else []
    return _unless_empty(chart.title, curves, y_range=chart.view, band=band, marks=marks)


def compare(chart: Chart, runs: Sequence[Run]) -> dict[str, Figure]:
    """One chart per metric with one curve per run, by title; runs that differ only in the seed are one curve with a
    band. {} for a chart of many metrics, such as one for each operand count."""
    found: dict[str, Figure] = {}
    arms, lines = arms_of(runs), {_LINES[metric] for metric, _ in chart.metrics if metric in _LINES}
    shown = [pair for pair in chart.metrics if pair[0] not in lines]
    for metric, label in () if len(shown) > _COMPARED or _is_quiet(chart, runs) else shown:
        title = chart.title if len(shown) == 1 else f"{chart.title}: {label}"
        curves = [curve(arm.runs, metric, arm.name, chart.view == SHARE, raw=False) for arm in arms]
        if lines:
            curves.append(_own_line(runs, _LINES[metric], curves))
        bands = {target_band(run) for run in runs} if metric == _CONJECTURED else {None}
        band = bands.pop() if len(bands) == 1 else None  # runs with different targets share no band
        found |= _unless_empty(title, curves, y_range=chart.view, band=band)
    return found


def _own_line(runs: Sequence[Run], metric: str, curves: Sequence[Curve]) -> Curve:
    """The constant that the first run with it logged, as wide as the curves."""
    x = np.concatenate([one.x for one in curves])
    value = next((series[0][1] for run in runs if (series := run.series(metric))), np.nan)
    return Curve("the target set", np.array([x.min(), x.max()]), np.full(2, value))


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


OFTEN = 0.75  # of the answers: 12 of 16


@dataclass(frozen=True)
class SolveCounts:
    """Problems that were never solved, solved in at least `OFTEN` of the answers, and the rest; their histogram, of
    length n + 1."""

    never: int
    often: int
    between: int
    histogram: np.ndarray

    def __str__(self) -> str:
        total = self.never + self.often + self.between
        return f"{self.never / total:.0%} never, {self.often / total:.0%} often"


def solve_counts(correct: Sequence[int], n: int) -> SolveCounts:
    """`correct`: right answers of each problem, out of n. Sharply bimodal: `between` is small beside both others."""
    counts = np.bincount(np.asarray(correct, dtype=int), minlength=n + 1)
    never, often = int(counts[0]), int(counts[int(np.ceil(OFTEN * n)) :].sum())
    return SolveCounts(never, often, len(correct) - never - often, counts)


def solve_count_chart(runs: Sequence[Run]) -> dict[str, Figure]:
    """Shares of the held-out problems by right answers, before and after training, of several runs after it; {} where
    nothing was evaluated. `often`: in at least three quarters of the answers."""
    wanted = [(runs[0], when, when) for when in ("before", "after")] if len(runs) == 1 else []
    wanted += [(run, "after", run.name) for run in runs] if len(runs) > 1 else []
    curves, sizes = [], set()
    for run, when, label in wanted:
        found = run.evaluation.get(when, {})
        if found.get("correct") and found["n"]:
            counts = solve_counts(found["correct"], found["n"])
            shares = counts.histogram / counts.histogram.sum()
            curves.append(Curve(f"{label}: {counts}", np.arange(found["n"] + 1), shares))
            sizes.add(found["n"])
    if not curves or len(sizes) > 1:
        return {}
    title = "Held-out problems by right answers"
    return {title: line_chart(title, curves, y_range=(0,), x_label=f"right answers of {sizes.pop()}")}


def _unless_empty(title: str, curves: list[Curve], **options: Any) -> dict[str, Figure]:
    empty = all(np.isnan(one.y).all() for one in curves)
    return {} if empty else {title: line_chart(title, curves, **options)}


@dataclass(frozen=True)
class RungMap:
    """rungs: ascending, the rows. starts: where each column begins, in rounds; end: where the last one ends. rates_CR:
    share solved by column and rung, NaN where nothing is known; measured: on held-out problems, in the run's
    evaluations, between which columns meet half-way. marks: rounds at which the shares are drawn; shares_MR: of
    the proposals of the rounds around a mark those of each rung, a row of 0 where there was none."""

    rungs: list[int]
    starts: list[float]
    end: float
    rates_CR: np.ndarray
    measured: bool
    marks: list[float]
    shares_MR: np.ndarray


def rung_data(run: Run) -> RungMap | None:
    """What the picture shows; None for a run whose problems are of one rung, or that logs none. A run that is not
    evaluated while it trains shows the solve rates of its rounds, in which a rung's problems are those that were
    chosen, and not all of it."""
    found = {int(match[1]) for row in run.rounds for match in map(_LOGGED.fullmatch, row) if match}
    found |= {int(match[1]) for row in run.others for match in map(_MEASURED.fullmatch, row) if match}
    if len(found) < 2 or not run.rounds:
        return None
    rungs = [rung for rung in sorted(found) if _occurs(run, rung)]
    evaluations = [row for row in run.others if any(map(_MEASURED.fullmatch, row))]
    starts, rates_CR = _measured(run, evaluations, rungs) if evaluations else _played(run, rungs)
    marks, shares_MR = _proposed(run, rungs)
    each = run.per_round
    end = run.steps[-1] / each + (0 if evaluations and starts[-1] < run.steps[-1] else 1)
    rounds = [start / each for start in starts]
    return RungMap(rungs, rounds, end, rates_CR, bool(evaluations), [mark / each for mark in marks], shares_MR)


def drawn_rungs(runs: Sequence[Run]) -> dict[str, dict[str, Figure]]:
    """The section, with a picture for each run that has rungs; {} without one."""
    found: dict[str, Figure] = {}
    for run in runs:
        data = rung_data(run)
        if data is not None:
            words = MEASURED if data.measured else PLAYED
            title = words if len(runs) == 1 else f"{words}: {run.name}"
            picture = (data.rungs, data.starts, data.end, data.rates_CR, data.marks, data.shares_MR)
            found[title] = rung_map(title, *picture)
    return {"Rungs": found} if found else {}


def _occurs(run: Run, rung: int) -> bool:
    """Whether anything was proposed or played of the rung, or measured on it."""
    logged = [f"round/rung_{rung}_{what}" for what in ("proposed", "played")]
    measured = any(f"eval_pass@1/rung_{rung}" in row for row in run.others)
    return measured or any(row.get(name, 0) > 0 for row in run.rounds for name in logged)


def _measured(
    run: Run, evaluations: Sequence[dict[str, float]], rungs: Sequence[int]
) -> tuple[list[float], np.ndarray]:
    """The evaluations of the run, before them the one before training."""
    before = run.evaluation.get("before", {}).get("by_rung", {})
    first = {f"eval_pass@1/rung_{rung}": value for rung, value in before.items()}
    rows = [{"step": 0.0, **first}] * bool(first) + [*evaluations]
    rows = [row for i, row in enumerate(rows) if i == 0 or row["step"] > rows[i - 1]["step"]]
    rates = [[row.get(f"eval_pass@1/rung_{rung}", np.nan) for rung in rungs] for row in rows]
    steps = [row["step"] for row in rows]
    return [steps[0], *((a + b) / 2 for a, b in pairwise(steps))], np.array(rates)


def _played(run: Run, rungs: Sequence[int]) -> tuple[list[float], np.ndarray]:
    """Solve rates of the rounds, weighed by the problems played, of several rounds together where there are many."""
    size = max(1, -(-len(run.rounds) // _COLUMNS))
    starts = [float(step) for step in run.steps[::size]]
    counts_CR, solved_CR = np.zeros((2, len(starts), len(rungs)))
    for i, row in enumerate(run.rounds):
        for j, rung in enumerate(rungs):
            count = row.get(f"round/rung_{rung}_played", 0.0)
            counts_CR[i // size, j] += count
            solved_CR[i // size, j] += count * row.get(f"round/rung_{rung}_solve_rate", 0.0)
    return starts, np.where(counts_CR > 0, solved_CR / np.maximum(counts_CR, 1e-9), np.nan)


def _proposed(run: Run, rungs: Sequence[int]) -> tuple[list[float], np.ndarray]:
    """Mean round of each group of rounds, and the rungs' shares of its proposals."""
    size = max(1, -(-len(run.rounds) // _MARKS))
    groups = [run.rounds[i : i + size] for i in range(0, len(run.rounds), size)]
    counts_MR = np.array(
        [[sum(row.get(f"round/rung_{rung}_proposed", 0.0) for row in group) for rung in rungs] for group in groups]
    )
    totals_M1 = counts_MR.sum(1, keepdims=True)
    return [float(np.mean([row["step"] for row in group])) for group in groups], counts_MR / np.maximum(totals_M1, 1)
