"""Charts without a declared metric, as a table of panels; and `drawn`, all charts."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...contract.metric import SHARE
from ...evaluation.load import OWN, Run, read_object
from ..critics.win_rates import matrix_of
from .charts import charts_of, figures, lines_of
from .pictures import Curve, Figure, cells, shade_words
from .targets import target_figures

SECTIONS = ("Rungs", "Pool", "Curriculum", "Prover", OWN, "", "Optimisation", "Texts and time", "Targets")
"""Headings in the order of the page; others are in place of "", custom ones last."""

MEASURED, PLAYED = "Rungs: pass@1 on held-out problems", "Rungs: solve rate of what was played"
MATRICES = {"corrected": "Wrong answers corrected", "resisted": "Misleading critiques rejected"}
MATRICES |= {"stands": "Right answers that stand"}
OFTEN = 0.75  # of the answers: 12 of 16
_COLUMNS = 60  # most columns of a heat map
_MARKS = 20  # most marks of a map of rungs
_MAPS = 8  # most runs of a comparison that have a heat map each
_RUNG = re.compile(r"(?:eval_pass@1|round)/rung_(-?\d+)(?:_proposed|_played)?")


def drawn(runs: Sequence[Run], yardsticks: Mapping[str, float] | None = None) -> dict[str, dict[str, Figure]]:
    """Draw every chart of one run, or of several in comparison, by section and title, in the order of SECTIONS."""
    charts: dict[str, dict[str, Figure]] = {"Curriculum": {}, "Prover": {}}
    for chart in charts_of(runs):
        charts.setdefault(chart.section, {}).update(figures(chart, runs))
    added = [(section, draw(runs), before) for section, draw, before in PANELS]
    for section, more, before in (*added, ("Targets", target_figures(runs, yardsticks), True)):
        declared = charts.get(section, {})
        if more:
            charts[section] = {**more, **declared} if before else {**declared, **more}
    order = {section: i for i, section in enumerate(SECTIONS)}
    return {name: charts[name] for name in sorted(charts, key=lambda one: order.get(one, order[""]))}


def rung_maps(runs: Sequence[Run]) -> dict[str, Figure]:
    maps = {}
    for run in runs:
        if (data := rung_data(run)) is not None:
            title = (MEASURED if data.measured else PLAYED) + _of(run, runs)
            maps[title] = rung_map(title, data)
    return maps


def _of(run: Run, runs: Sequence[Run]) -> str:
    """Return the end of the title of a chart of one of several runs."""
    return f": {run.name}" if len(runs) > 1 else ""


class RungMap(NamedTuple):
    """Data of a map of rungs. rungs: ascending, the rows. starts: beginning of each column, in rounds; end: end of the
    last one. rates_CR: share solved by column and rung, NaN if unknown; measured: on held-out problems, in the run's
    evaluations, between which columns meet half-way. marks: rounds with discs; shares_MR: shares of each rung among
    the proposals of the rounds around a mark, a row of 0 without any."""

    rungs: list[int]
    starts: list[float]
    end: float
    rates_CR: np.ndarray
    marks: list[float]
    shares_MR: np.ndarray
    measured: bool = True


def rung_map(title: str, data: RungMap) -> Figure:
    """Plot rungs upwards over rounds: the solved share as shade, over it discs for proposals."""
    legend = shade_words(data.rates_CR, "solved", "0% solved", "not measured")
    edges = np.arange(len(data.rungs) + 1) - 0.5
    return cells(
        title, [*data.starts, data.end], edges, data.rates_CR.T, legend, labels=("round", "rung"), most=None,
        names=((), data.rungs), discs=list(zip(data.marks, data.shares_MR, strict=True)),
    )  # fmt: skip


def rung_data(run: Run) -> RungMap | None:
    """Return the data of the picture; None for a run whose problems are of one rung, or that logs none. A run without
    evaluations in training shows the solve rates of its rounds, whose problems are a selection of each rung."""
    logged = map(_RUNG.fullmatch, run.names.union(*run.others))
    rungs = sorted({int(match[1]) for match in logged if match})
    if len(rungs) < 2 or not run.rounds:
        return None

    def values(rows: Sequence[Mapping[str, float]], name: str, absent: float) -> np.ndarray:
        return np.array([[row.get(name.format(rung), absent) for rung in rungs] for row in rows]).reshape(
            -1, len(rungs)
        )

    proposed, played = (values(run.rounds, f"round/rung_{{}}_{what}", 0.0) for what in ("proposed", "played"))
    steps, name = np.array(run.steps), "eval_pass@1/rung_{}"
    rows = [row for row in run.others if any(name.format(rung) in row for rung in rungs)]
    if measured := bool(rows):  # before them the evaluation before training
        first = run.evaluation.get("before", {}).get("by_rung", {})
        rows = [{"step": 0.0, **{name.format(rung): rate for rung, rate in first.items()}}] * bool(first) + rows
        rows = [row for i, row in enumerate(rows) if i == 0 or row["step"] > rows[i - 1]["step"]]
        at = [row["step"] for row in rows]
        rates, starts = values(rows, name, np.nan), [at[0], *((a + b) / 2 for a, b in pairwise(at))]
        occurs = np.isfinite(values(run.others, name, np.nan)).any(0) | ((proposed > 0) | (played > 0)).any(0)
    else:
        groups = _groups(len(steps), _COLUMNS)
        solved = np.add.reduceat(played * values(run.rounds, "round/rung_{}_solve_rate", 0.0), groups)
        counts = np.add.reduceat(played, groups)
        rates, starts = np.where(counts > 0, solved / np.maximum(counts, 1e-9), np.nan), steps[groups].tolist()
        occurs = ((proposed > 0) | (played > 0)).any(0)
    groups = _groups(len(steps), _MARKS)
    marks = np.add.reduceat(steps, groups) / np.diff([*groups, len(steps)])
    counts = np.add.reduceat(proposed, groups)
    shares = (counts / np.maximum(counts.sum(1, keepdims=True), 1))[:, occurs]
    end = steps[-1] + (0 if measured and starts[-1] < steps[-1] else 1)
    shown = [rung for rung, there in zip(rungs, occurs, strict=True) if there]
    return RungMap(
        shown, [float(start) for start in starts], float(end), rates[:, occurs], marks.tolist(), shares, measured
    )


def _groups(count: int, most: int) -> np.ndarray:
    """Return the beginning of each of at most `most` groups of equally many rounds."""
    return np.arange(0, count, max(1, -(-count // most)))


def solve_rate_maps(runs: Sequence[Run]) -> dict[str, Figure]:
    """Plot rounds across, solve rate upwards, share of the round's problems as shade; many rounds are grouped, and
    those with another number of bins than the last one are left out."""
    maps = {}
    for run in runs if len(runs) <= _MAPS else ():
        bins = len(run.histograms[max(run.histograms)]) if run.histograms else 1
        counts = [row if len(row := run.histograms.get(step, [])) == bins else [0] * bins for step in run.steps]
        if not np.any(counts):
            continue
        groups = _groups(len(counts), _COLUMNS)
        counts_CB = np.add.reduceat(np.array(counts, dtype=float), groups)
        total_C = counts_CB.sum(axis=1, keepdims=True)
        shares_CB = np.where(total_C > 0, counts_CB / np.maximum(total_C, 1), np.nan)
        title = "Solve rates of conjectured problems" + _of(run, runs)
        rounds, edges = np.array(run.steps), (np.arange(bins + 1) - 0.5) / (bins - 1)
        legend = shade_words(shares_CB, "of the problems", "0%", "no problem played")
        maps[title] = cells(title, [*rounds[groups], rounds[-1] + 1], edges, shares_CB.T, legend, most=None)
    return maps


def solve_counts(correct: Sequence[int], n: int) -> tuple[np.ndarray, str]:
    """Return shares of problems by right answers out of n, and words on those never and often solved."""
    counts = np.bincount(np.asarray(correct, dtype=int), minlength=n + 1)
    shares = counts / counts.sum()
    return shares, f"{shares[0]:.0%} never, {shares[int(np.ceil(OFTEN * n)) :].sum():.0%} often"


def solve_count_chart(runs: Sequence[Run]) -> dict[str, Figure]:
    """Plot held-out problems by right answers, before and after training, of several runs after it; {} without
    evaluations, or with different numbers of answers."""
    wanted = [(run, "after", run.name) for run in runs]
    if len(runs) == 1:
        wanted = [(runs[0], when, when) for when in ("before", "after")]
    curves, sizes = [], set[int]()
    for run, when, label in wanted:
        side = run.evaluation.get(when, {})
        if side.get("correct") and (n := side["n"]):
            shares, words = solve_counts(side["correct"], n)
            curves.append(Curve(f"{label}: {words}", np.arange(n + 1), shares))
            sizes.add(n)
    if len(sizes) != 1:
        return {}
    title, x_label = "Held-out problems by right answers", f"right answers of {sizes.pop()}"
    return lines_of(title, curves, y_range=(0,), x_label=x_label)


def reliability(runs: Sequence[Run]) -> dict[str, Figure]:
    """Plot measured solve rate against the estimate, at the last refresh of each run's predictor."""
    curves = []
    for run in runs:
        last = [run.series(f"proposer/rate_at_{tenth}")[-1:] for tenth in range(10)]
        step = max((at for points in last for at, _ in points), default=None)
        rate = [points[0][1] if points and points[0][0] == step else np.nan for points in last]
        curves.append(Curve(run.name if len(runs) > 1 else "measured", np.arange(10) / 10 + 0.05, np.array(rate)))
    if all(np.isnan(one.y).all() for one in curves):
        return {}
    curves.append(Curve("calibrated", np.array([0.0, 1.0]), np.array([0.0, 1.0])))
    return lines_of("Reliability of the predictor", curves, y_range=SHARE, x_label="estimated solve rate")


def matrices(runs: Sequence[Run]) -> dict[str, Figure]:
    """Plot provers against critics of all iterations (Wang et al., figure 4), of runs with win_rates.json."""
    drawn: dict[str, Figure] = {}
    for run in runs:
        raw = read_object(run.path / "win_rates.json", "the win rates of `eval --task win_rates`", _matrices)
        for rate, values in raw.get("rates", {}).items():
            if np.isfinite(values).any():
                title = MATRICES[rate] + _of(run, runs)
                edges = [np.arange(size + 1) for size in values.shape]
                drawn[title] = cells(
                    title, edges[1], edges[0], values, (), labels=("critics of iteration", "prover of iteration"),
                    names=(raw["critics"], raw["provers"]), inverted=True, written=True,
                )  # fmt: skip
    return drawn


def _matrices(result: dict[str, Any]) -> dict[str, Any]:
    rates = {rate: np.array(matrix_of(result, rate), dtype=float) for rate in MATRICES}  # None becomes NaN
    return {**result, "rates": rates}


PANELS: tuple[tuple[str, Callable[[Sequence[Run]], dict[str, Figure]], bool], ...] = (
    ("Curriculum", solve_rate_maps, False),
    ("Prover", solve_count_chart, False),
    ("Rungs", rung_maps, True),
    ("Symbolic proposer", reliability, True),
    ("Critic game", matrices, True),
)
"""(section, drawing function, whether its charts precede the declared ones of the section)."""
