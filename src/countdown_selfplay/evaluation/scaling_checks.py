"""How far a fitted asymptote can be trusted: an interval, seed 003's two checks, and when two may be ranked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from ..errors import DataError
from ..statistics.bootstrap import Estimate, Interval
from ..statistics.curve import Curve
from ..statistics.scaling import ScalingFit, fit_scaling_curve
from ..statistics.scaling_draws import influences, residual_draws
from ..statistics.seeds import two_level_draws
from .compare.scaling_data import curve_of

Series = tuple[Sequence[float], Sequence[float]]
"""Compute and rate of one run."""

TAILS = (0.1, 0.2, 0.3)  # shares of the last points that seed 003 takes off (appendix A, figure 8)
SUBSETS = 100  # fits on half of the points
_DRAWS = 10_000  # of an asymptote over runs, which cost no fit each
_MOST_FAILED = 0.05  # share of resampled fits that may fail before the interval says nothing
_UNSTABLE = 0.5  # and before the fit itself does
_ONE_CUMULATIVE_RUN = (
    "no interval and no ranking from one cumulative curve (one that never falls), for its points share their problems "
    "and are not independent; give several runs as NAME=RUN,RUN, or a run folder with first_solved.json"
)


@dataclass(frozen=True)
class Assessment:
    """A fit and what it stands up to.

    fit: failed, too, if more than half of the resampled fits did.
    interval: 95% interval of the asymptote; None if the fit or more than 5% of the resampled fits failed, or the data
    cannot give one. over: what the interval is over, or why there is none.
    tails: share of points taken off at the end -> asymptote, None where the fit failed. subsets: asymptotes of fits on
    random halves of the points. failed: share of resampled, and of halved, fits that failed. draws: of the asymptote.
    values: the asymptote as a mean over runs (rows) and problems (columns; one where they are not known), see
    influences; None for the independent points of one run.
    """

    name: str
    fit: ScalingFit
    curves: list[Curve]
    interval: Estimate | None
    over: str
    failed: tuple[float, float]
    tails: dict[float, float | None]
    subsets: np.ndarray
    draws: np.ndarray
    values: np.ndarray | None = None

    @property
    def subset_sd(self) -> float | None:
        """Standard deviation of the asymptote over the halves (seed 003: 1.1 points); None if under 2 succeeded."""
        return float(self.subsets.std(ddof=1)) if len(self.subsets) > 1 else None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        fit, sd = self.fit, self.subset_sd
        return {
            "name": self.name,
            "runs": len(self.curves),
            "points": sum(len(curve.compute) for curve in self.curves),
            "converged": fit.converged,
            "reason": fit.reason,
            "asymptote": fit.asymptote,
            "c_mid": fit.c_mid,
            "slope": fit.slope,
            "initial": fit.initial,
            "standard_error": fit.error,
            "residual": fit.residual,
            "interval": None if self.interval is None else self.interval.to_dict(),
            "interval_over": self.over,
            "failed_resamples": self.failed[0],
            "without_tail": {f"{share:g}": value for share, value in self.tails.items()},
            "half_of_the_points": None
            if sd is None
            else {
                "mean": float(self.subsets.mean()),
                "sd": sd,
                "lowest": float(self.subsets.min()),
                "highest": float(self.subsets.max()),
                "failed": self.failed[1],
            },
        }


def assess(
    name: str,
    runs: Sequence[Curve | Series],
    drop_below: float = 0,
    resamples: int = 500,
    seed: int = 0,
    subsets: int | None = None,
) -> Assessment:
    """Fit the sigmoid to the points of all `runs` (training seeds) at once and check it; R0 is the mean of the runs'
    first rates.

    Several runs: the asymptote's interval is over runs, and over problems where all runs name the same ones
    (two_level_draws of `influences`: Student's t with one degree of freedom less than there are runs). One run that
    names its problems: over problems alone. One run whose points are independent: a bootstrap of residuals, over the
    noise of the points alone. One cumulative run: none. No interval covers the chance that the curve is not a sigmoid:
    the other two checks look for that. They fit again without the last 10, 20 and 30% of each run's points, and on
    `subsets` (100) random halves of all points. DataError for a run that is not a curve.
    """
    if not runs:
        raise DataError("A scaling fit needs at least one run.")
    subsets = SUBSETS if subsets is None else subsets
    curves = [run if isinstance(run, Curve) else curve_of(*run) for run in runs]
    for curve in curves:  # refuses a list that falls or does not match, before the points are pooled
        fit_scaling_curve(curve.compute, curve.rate, np.inf)
    initial = float(np.mean([curve.rate[0] for curve in curves]))

    def fit(x: np.ndarray, y: np.ndarray, start: float = initial) -> ScalingFit:
        order = np.argsort(x, kind="stable")
        return fit_scaling_curve(x[order], y[order], drop_below, start)

    kept = [(curve.compute >= drop_below) & (curve.compute > 0) for curve in curves]
    points = [(curve.compute[keep], curve.rate[keep]) for curve, keep in zip(curves, kept, strict=True)]
    x_N, y_N = (np.concatenate(part) for part in zip(*points, strict=True))
    whole = fit(x_N, y_N)
    tails = {}
    for share in TAILS if min(len(x) for x, _ in points) > 1 else ():
        cut = [(x[: len(x) - round(share * len(x))], y[: len(x) - round(share * len(x))]) for x, y in points]
        x_cut, y_cut = (np.concatenate(part) for part in zip(*cut, strict=True))
        tails[share] = fit(x_cut, y_cut).asymptote
    none = np.zeros(0)
    if whole.asymptote is None:
        return Assessment(name, whole, curves, None, "the fit failed", (1.0, 1.0), tails, none, none)
    rng = np.random.default_rng(seed)
    halves = [rng.permutation(len(x_N))[: -(-len(x_N) // 2)] for _ in range(subsets)]
    halved = np.array([a for half in halves if (a := fit(x_N[half], y_N[half]).asymptote) is not None])
    values, draws, lost, over = None, none, 0.0, _over(curves)
    if over != _ONE_CUMULATIVE_RUN:
        values = influences(whole, curves, kept) if len(curves) > 1 or curves[0].problems is not None else None
        if values is not None:
            draws = two_level_draws(np.zeros((1, values.shape[1])), values, _DRAWS, seed)
        else:
            draws = residual_draws(whole, x_N, y_N, fit, resamples, rng)
            lost = 1 - len(draws) / resamples
    failed = (lost, 1 - len(halved) / max(subsets, 1))
    if lost > _UNSTABLE:
        reason = f"{lost:.0%} of the fits to resampled residuals failed: the data do not determine the curve."
        whole = ScalingFit(None, None, None, initial, False, reason)
    interval = None
    if len(draws) and lost <= _MOST_FAILED and whole.asymptote is not None:
        low, high = np.clip(np.quantile(draws, (0.025, 0.975)), 0, 1)
        interval = Estimate(whole.asymptote, float(low), float(high))
    return Assessment(name, whole, curves, interval, over, failed, tails, halved, draws, values)


def _over(curves: Sequence[Curve]) -> str:
    """What the curves' interval is over, in words, or _ONE_CUMULATIVE_RUN."""
    if len(curves) == 1 and curves[0].problems is None:
        return _ONE_CUMULATIVE_RUN if curves[0].cumulative else "the points of one run"
    runs = "" if len(curves) == 1 else f"{len(curves)} runs"
    known = curves[0].problems is not None and all(curve.problems == curves[0].problems for curve in curves)
    return (
        f"{runs} and {len(curves[0].problems or ())} problems"
        if runs and known
        else runs or (f"{len(curves[0].problems or ())} problems of one run")
    )


@dataclass(frozen=True)
class Ranking:
    """Two arms: which has the higher asymptote, or why that cannot be said. difference: higher minus lower."""

    first: str
    second: str
    ranked: bool
    sentence: str
    difference: Interval | None = None


def rank(found: Sequence[Assessment], seed: int = 0) -> list[Ranking]:
    """Every pair. Two asymptotes are ranked only if both have an interval, they differ by more than the larger of
    their standard deviations over halves of the points (seed 003 treats less "cautiously"), and the interval of the
    difference excludes 0: with Welch's degrees of freedom over the runs of both, paired where both name the same
    problems. The interval is one per pair and not adjusted for their number."""
    return [_pair(a, b, seed) for a, b in combinations(found, 2)]


def _pair(a: Assessment, b: Assessment, seed: int) -> Ranking:
    def unranked(reason: str, interval: Interval | None = None) -> Ranking:
        return Ranking(a.name, b.name, False, f"{a.name} and {b.name}: not ranked, {reason}.", interval)

    for one in (a, b):
        if one.fit.asymptote is None:
            return unranked(f"the fit of {one.name} failed")
        if one.over == _ONE_CUMULATIVE_RUN:
            return unranked(f"{one.name} is one cumulative curve")
        if one.interval is None or one.subset_sd is None:
            return unranked(f"{max(one.failed):.0%} of the resampled fits of {one.name} failed")
    if (a.fit.asymptote or 0) < (b.fit.asymptote or 0):
        a, b = b, a
    draws = _difference_draws(a, b, seed)
    value = float(a.fit.asymptote or 0) - float(b.fit.asymptote or 0)
    low, high = (float(end) for end in np.clip(np.quantile(draws, (0.025, 0.975)), -1, 1))
    spread = max(a.subset_sd or 0.0, b.subset_sd or 0.0)
    numbers = f"{value:+.4f} [{low:+.4f}, {high:+.4f}], spread over halves of the points {spread:.4f}"
    interval = Interval(value, low, high)
    if value <= spread or low <= 0:
        return unranked(f"their asymptotes are closer than they are known ({numbers})", interval)
    single = [one.name for one in (a, b) if len(one.curves) == 1]
    about = f" (about these runs, not the methods: one run of {' and of '.join(single)})" if single else ""
    return Ranking(a.name, b.name, True, f"{a.name} above {b.name}: {numbers}{about}.", interval)


def _difference_draws(a: Assessment, b: Assessment, seed: int) -> np.ndarray:
    """Draws of the asymptote of a minus that of b."""
    if a.values is not None and b.values is not None and a.values.shape[1] == b.values.shape[1]:
        return two_level_draws(b.values, a.values, _DRAWS, seed)
    rng = np.random.default_rng(seed)
    return rng.choice(a.draws, _DRAWS) - rng.choice(b.draws, _DRAWS)
