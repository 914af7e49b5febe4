"""Scaling fits of the cumulative solve rate: curve of a run, fit of an arm with an interval, checks of a fit."""

import csv
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..data.jsonl import json_lines, json_shape
from ..errors import DataError
from ..statistics.bootstrap import Z_95, Estimate, finite_array, t_quantile, two_level_draws
from ..statistics.solved import FIRST_SOLVED
from .scaling_fit import ScalingCurve, ScalingFit, fit_scaling_curve, jacobian

GENERATIONS = "generations"
"""Texts sampled so far, of all trained roles: steps times the texts of a round, if a run does not log them."""

COUNTED = "round/generations"
"""Texts as counted by a run: across resumes, and without empty slots."""

CUMULATIVE = "cumulative_solve_rate"

Series = tuple[Sequence[float], Sequence[float]]
"""Compute and rate of one run."""

TAILS = (0.1, 0.2, 0.3)  # shares of the last points that SGS takes off (appendix A, figure 8)
SUBSETS = 100  # fits on half of the points
DRAWS = 10_000  # of an asymptote over runs, which cost no fit each
_MOST_FAILED = 0.05  # share of resampled fits that may fail before the interval says nothing
_UNSTABLE = 0.5  # and before the fit itself does
ONE_CUMULATIVE_RUN = (
    "no interval from one cumulative curve (one that never falls), for its points share their problems and are not "
    "independent; give several runs as NAME=RUN,RUN, or a run folder with first_solved.json"
)


def curve_of(
    compute: Sequence[float] | np.ndarray, rate: Sequence[float] | np.ndarray, name: str = ""
) -> ScalingCurve:
    """Build the curve of two lists; a rate is cumulative by its name's ending, or if it never falls."""
    x, y = finite_array(compute, "compute"), finite_array(rate, "rate")
    return ScalingCurve(x, y, name.endswith(CUMULATIVE) or (len(y) > 1 and bool((np.diff(y) >= 0).all())))


def load_curve(path: str, compute: str | None, rate: str | None) -> tuple[ScalingCurve, str, str]:
    """Return the points of a run folder, a .csv or a .jsonl file, and the names of the two columns. Rows without both
    are ignored. Default columns: `compute`, else the generations (counted ones if present); `rate`, else a metric that
    ends in cumulative_solve_rate, else eval_pass@1. The rates of a run folder with FIRST_SOLVED are counted from it.
    Raises DataError for an absent file or column, and a value that is not a finite number."""
    run = Path(path) if Path(path).is_dir() else None
    place = Path(path) if run is None else run / "metrics.jsonl"
    if not place.is_file():
        raise DataError(f"There is no file '{place}'; pass a run folder, or a .csv or .jsonl file.")
    try:
        if place.suffix == ".csv":
            with place.open(encoding="utf-8", newline="") as file:
                rows: list[dict[str, Any]] = list(csv.DictReader(file))
        else:
            rows = [row for _, row in json_lines(place)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"'{place}' is not a table in UTF-8 text ({error}).") from None
    if any(None in row for row in rows):  # where the csv module puts the cells of a line beyond its header
        raise DataError(f"'{place}' is no table: a line has more cells than the first, which names the columns.")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if rate is None:
        rates = [name for name in columns if name == "rate"]
        rates += [name for end in (CUMULATIVE, "eval_pass@1") for name in columns if name.endswith(end)]
        if not rates:
            raise DataError(f"'{place}' has no column 'rate', {CUMULATIVE} or eval_pass@1; name one with --rate.")
        rate = rates[0]
    compute = compute or next((name for name in ("compute", GENERATIONS, COUNTED) if name in columns), GENERATIONS)
    if compute == GENERATIONS and compute not in columns and run is not None:
        each = texts_per_round(run)
        rows = [{**row, compute: row["step"] * each} if "step" in row else row for row in rows]
        columns.append(compute)
    for name in (compute, rate):
        if name not in columns:
            raise DataError(f"'{place}' has no column '{name}'; it has {', '.join(columns[:12])}.")
    points = []
    for number, row in enumerate(rows, start=1):
        if row.get(compute) not in (None, "") and row.get(rate) not in (None, ""):
            x, y = _number(row[compute], place, number, compute), _number(row[rate], place, number, rate)
            points.append((x, y, row.get("step", -1)))
    if not points:
        raise DataError(f"'{place}' has no row with both '{compute}' and '{rate}'.")
    points.sort(key=lambda point: point[0])
    curve = curve_of([x for x, _, _ in points], [y for _, y, _ in points], rate)
    if run is None or not rate.endswith(CUMULATIVE) or not (run / FIRST_SOLVED).is_file():
        return curve, compute, rate
    cure = "delete it to fit the rates of metrics.jsonl alone"
    with json_shape(run / FIRST_SOLVED, "in which round each problem was solved", cure) as record:
        entries, rounds = dict(sorted(record["first_solved"].items())), int(record["rounds"])
        round_P = np.array([math.inf if at is None else float(at) for at in entries.values()])
    # The record may end before a killed run.
    steps = np.array([float(step) for _, _, step in points if step <= rounds])
    first_P = np.searchsorted(steps, round_P)
    y_J = np.searchsorted(np.sort(first_P), np.arange(len(steps)), side="right") / len(entries)
    return ScalingCurve(curve.compute[: len(steps)], y_J, True, tuple(entries), first_P), compute, rate


def texts_per_round(run: Path) -> int:
    """Return the answers and proposals of a round of the default game."""
    cure = "name a column, as in --compute step"
    with json_shape(run / "run.json", "how many texts a round samples", cure) as recorded:
        config = recorded["config"]
        provers, writers = (config.get(f"{kind}_players") for kind in ("prover", "conjecturer"))
        answers = config["problems_per_round"] * (config.get("prover_num_generations") or config["num_generations"])
        each = answers * (1 if provers is None else provers)
        each += config["proposals_per_round"] * (1 if writers is None else writers)
    return int(each)


def _number(value: Any, place: Path, row: int, column: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"'{place}', row {row}, column '{column}': must be a finite number, got {value!r}.")
    return number


@dataclass(frozen=True)
class ScalingArm:
    """Fit of one arm. fit: failed too if more than half of the resampled fits did. interval: 95% interval of the
    asymptote; None if the fit or more than 5% of the resampled fits failed, or the data do not allow one. over: source
    of the interval, or why there is none. failed: share of failed resampled fits. draws: of the asymptote. values: the
    asymptote as a mean over runs and problems (see influences); None for the independent points of one run."""

    name: str
    fit: ScalingFit
    curves: list[ScalingCurve]
    interval: Estimate | None
    over: str
    failed: float
    draws: np.ndarray
    values: np.ndarray | None = None

    def to_dict(self) -> dict[str, Any]:
        fitted = ("converged", "reason", "asymptote", "c_mid", "slope", "initial", "residual")
        return {
            "name": self.name, "runs": len(self.curves), "points": sum(len(curve.compute) for curve in self.curves),
            **{name: getattr(self.fit, name) for name in fitted}, "standard_error": self.fit.error,
            "interval": None if self.interval is None else self.interval.to_dict(), "interval_over": self.over,
            "failed_resamples": self.failed,
        }  # fmt: skip


@dataclass(frozen=True)
class Points:
    """Curves of one arm, and their fitted points. initial: R0, the mean of the runs' first rates."""

    curves: list[ScalingCurve]
    kept: list[np.ndarray]
    initial: float
    drop_below: float

    @classmethod
    def of(cls, runs: Sequence[ScalingCurve | Series], drop_below: float) -> "Points":
        """Build from runs. Raises DataError for no run, or one that is not a curve."""
        if not runs:
            raise DataError("A scaling fit needs at least one run.")
        curves = [run if isinstance(run, ScalingCurve) else curve_of(*run) for run in runs]
        for curve in curves:  # refuses a list that falls or does not match, before the points are pooled
            fit_scaling_curve(curve.compute, curve.rate, np.inf)
        kept = [(curve.compute >= drop_below) & (curve.compute > 0) for curve in curves]
        return cls(curves, kept, float(np.mean([curve.rate[0] for curve in curves])), drop_below)

    def series(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return compute and rate of each run's kept points."""
        return [(curve.compute[keep], curve.rate[keep]) for curve, keep in zip(self.curves, self.kept, strict=True)]

    def pooled(self) -> tuple[np.ndarray, np.ndarray]:
        x_N, y_N = (np.concatenate(part) for part in zip(*self.series(), strict=True))
        return x_N, y_N

    def fit(self, x: np.ndarray, y: np.ndarray, start: float | None = None) -> ScalingFit:
        """Fit the sigmoid to these points, in any order, from R0 = `start` (None: the arm's)."""
        order = np.argsort(x, kind="stable")
        return fit_scaling_curve(x[order], y[order], self.drop_below, self.initial if start is None else start)


def fit_arm(
    name: str,
    runs: Sequence[ScalingCurve | Series],
    drop_below: float = 0,
    resamples: int = 500,
    seed: int = 0,
    recenter: bool = False,
) -> ScalingArm:
    """Fit the sigmoid to the points of all `runs` (training seeds) at once; R0 is the mean of the runs' first rates.

    Several runs: the asymptote's interval is over runs, and over problems if all runs have the same ones
    (two_level_draws of `influences`: Student's t with one degree of freedom less than the number of runs). One run
    with named problems: over problems. One run with independent points: a bootstrap of residuals, over the noise of
    the points. One cumulative run: none. recenter: each run begins at its first kept point (ScalingCurve.recentred).
    No interval covers the error of the sigmoid as a model: tools/scaling_checks.py tests for it. Raises DataError for
    a run that is not a curve."""
    if recenter:
        runs = [(run if isinstance(run, ScalingCurve) else curve_of(*run)).recentred(drop_below) for run in runs]
        drop_below = 0
    points = Points.of(runs, drop_below)
    curves, (x_N, y_N) = points.curves, points.pooled()
    whole = points.fit(x_N, y_N)
    if whole.asymptote is None:
        return ScalingArm(name, whole, curves, None, "the fit failed", 1.0, np.zeros(0))
    values, draws, lost, over = None, np.zeros(0), 0.0, _over(curves)
    if len(curves) > 1 or curves[0].problems is not None:
        values = influences(whole, curves, points.kept)
        draws = two_level_draws(np.zeros((1, values.shape[1])), values, DRAWS, seed)
    elif over != ONE_CUMULATIVE_RUN:
        draws = residual_draws(whole, x_N, y_N, points.fit, resamples, np.random.default_rng(seed))
        lost = 1 - len(draws) / resamples
    if lost > _UNSTABLE:
        reason = f"{lost:.0%} of the fits to resampled residuals failed: the data do not determine the curve."
        whole = ScalingFit(None, None, None, points.initial, False, reason)
    interval = None
    if len(draws) and lost <= _MOST_FAILED and whole.asymptote is not None:
        low, high = np.clip(np.quantile(draws, (0.025, 0.975)), 0, 1)
        interval = Estimate(whole.asymptote, float(low), float(high))
    return ScalingArm(name, whole, curves, interval, over, lost, draws, values)


def _over(curves: Sequence[ScalingCurve]) -> str:
    """Describe the curves' interval, or return ONE_CUMULATIVE_RUN."""
    problems = f"{len(curves[0].problems or ())} problems" if _same_problems(curves) else ""
    if len(curves) > 1:
        return f"{len(curves)} runs" + (problems and f" and {problems}")
    if problems:
        return f"{problems} of one run"
    return ONE_CUMULATIVE_RUN if curves[0].cumulative else "the points of one run"


def _same_problems(curves: Sequence[ScalingCurve]) -> bool:
    return curves[0].problems is not None and all(curve.problems == curves[0].problems for curve in curves)


def influences(fit: ScalingFit, curves: Sequence[ScalingCurve], kept: Sequence[np.ndarray]) -> np.ndarray:
    """Return the asymptote as a mean of one value per run and problem, shape (runs, problems); one column unless all
    runs have the same problems. A run's value is A plus S times its influence, of S runs. To first order
    (infinitesimal jackknife, Efron 1982) A moves by k . r, r the run's residuals and k the first row of (J'J)^-1 J',
    where J holds the curve's derivatives at all points by A, log C_mid and B; and by (1 - sum k) / S times the
    residual of the run's first rate, because R0 is their mean. A rate is a mean over problems, and so is a run's
    value. `kept`: the fitted points of each curve."""
    x_N = np.concatenate([curve.compute[keep] for curve, keep in zip(curves, kept, strict=True)])
    J_N3 = jacobian(fit, x_N)
    k_N = np.linalg.solve(J_N3.T @ J_N3, J_N3.T)[0]
    start = (1 - float(k_N.sum())) / len(curves)
    known, rows, done = _same_problems(curves), [], 0
    for curve, keep in zip(curves, kept, strict=True):
        weight_J = np.zeros(len(curve.compute))
        weight_J[keep] = k_N[done : done + keep.sum()]
        done += int(keep.sum())
        fitted = float(weight_J[keep] @ fit(curve.compute[keep])) + start * fit.initial
        weight_J[0] += start
        if known and curve.first is not None:
            solved_P = np.append(np.cumsum(weight_J[::-1])[::-1], 0.0)[curve.first]  # sum over the points from then on
        else:
            solved_P = np.array([weight_J @ curve.rate])
        rows.append((fit.asymptote or 0.0) + len(curves) * (solved_P - fitted))
    return np.stack(rows)


def residual_draws(
    fit: ScalingFit,
    x_N: np.ndarray,
    y_N: np.ndarray,
    fit_again: Callable[[np.ndarray, np.ndarray, float], ScalingFit],
    resamples: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return asymptotes of converged fits to the curve with resampled residuals, centred and scaled by sqrt(N / (N -
    3)) for the three fitted values, and clipped to [0, 1]. R0 is an observation too and gets a drawn residual
    (otherwise the 95% interval covered the truth on 90% of simulated curves). Correlated residuals (lag-1 correlation
    above 2 / sqrt(N)) are drawn in circular blocks of N^(1/3), others singly, because the fit makes residuals
    alternate, and blocks would then underestimate the noise. The draws are scaled by Student's t over the normal
    quantile: the noise estimate has N - 3 degrees of freedom."""
    residual = y_N - fit(x_N)
    count, d = len(x_N), residual - residual.mean()
    squares, lag = float((d**2).sum()), float((d[1:] * d[:-1]).sum())
    correlated = count > 2 and squares > 0 and lag / squares > 2 / count**0.5
    block = max(1, round(count ** (1 / 3))) if correlated else 1
    residual = d * (count / max(count - 3, 1)) ** 0.5
    asymptotes = []
    for _ in range(resamples):
        starts = rng.integers(count, size=-(-count // block))
        places = ((starts[:, None] + np.arange(block)) % count).ravel()[:count]
        start = float(np.clip(fit.initial + residual[rng.integers(count)], 0, 1))
        asymptotes.append(fit_again(x_N, np.clip(fit(x_N) + residual[places], 0, 1), start).asymptote)
    draws = np.array([value for value in asymptotes if value is not None])
    center = fit.asymptote or 0.0
    return np.asarray(center + (draws - center) * (float(t_quantile(0.975, count - 3)) / Z_95))


def fits_without_tails(points: Points) -> dict[float, ScalingFit]:
    """Return share of each run's removed last points -> fit to the rest; {} if a run has one point."""
    parts = points.series()
    fits: dict[float, ScalingFit] = {}
    for share in TAILS if min(len(x) for x, _ in parts) > 1 else ():
        kept = [len(x) - round(share * len(x)) for x, _ in parts]
        x_cut, y_cut = (np.concatenate([own[i][:n] for own, n in zip(parts, kept, strict=True)]) for i in (0, 1))
        fits[share] = points.fit(x_cut, y_cut)
    return fits


def fits_on_halves(points: Points, seed: int = 0, count: int = SUBSETS) -> list[ScalingFit]:
    """Return the converged fits to `count` random halves of all points."""
    rng = np.random.default_rng([seed, 1])
    x_N, y_N = points.pooled()
    halves = [rng.permutation(len(x_N))[: -(-len(x_N) // 2)] for _ in range(count)]
    fits = [points.fit(x_N[half], y_N[half]) for half in halves]
    return [fit for fit in fits if fit.converged]
