"""An arm's scaling curve: one fit to all of its runs, and the interval of the asymptote that its data can give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import DataError
from ..statistics.bootstrap import Estimate
from ..statistics.curve import Curve
from ..statistics.scaling import ScalingFit, fit_scaling_curve
from ..statistics.scaling_draws import influences, residual_draws
from ..statistics.seeds import two_level_draws
from .compare.scaling_data import curve_of

Series = tuple[Sequence[float], Sequence[float]]
"""Compute and rate of one run."""

DRAWS = 10_000  # of an asymptote over runs, which cost no fit each
_MOST_FAILED = 0.05  # share of resampled fits that may fail before the interval says nothing
_UNSTABLE = 0.5  # and before the fit itself does
ONE_CUMULATIVE_RUN = (
    "no interval from one cumulative curve (one that never falls), for its points share their problems and are not "
    "independent; give several runs as NAME=RUN,RUN, or a run folder with first_solved.json"
)


@dataclass(frozen=True)
class ScalingArm:
    """The fit of one arm.

    fit: failed, too, if more than half of the resampled fits did.
    interval: 95% interval of the asymptote; None if the fit or more than 5% of the resampled fits failed, or the data
    cannot give one. over: what the interval is over, or why there is none. failed: share of resampled fits that
    failed. draws: of the asymptote. values: the asymptote as a mean over runs (rows) and problems (columns; one where
    they are not known), see influences; None for the independent points of one run.
    """

    name: str
    fit: ScalingFit
    curves: list[Curve]
    interval: Estimate | None
    over: str
    failed: float
    draws: np.ndarray
    values: np.ndarray | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        fit = self.fit
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
            "failed_resamples": self.failed,
        }


@dataclass(frozen=True)
class Points:
    """The curves of one arm, and which of their points are fitted. initial: R0, the mean of the runs' first rates."""

    curves: list[Curve]
    kept: list[np.ndarray]
    initial: float
    drop_below: float

    @classmethod
    def of(cls, runs: Sequence[Curve | Series], drop_below: float) -> Points:
        """DataError for no run, or one that is not a curve."""
        if not runs:
            raise DataError("A scaling fit needs at least one run.")
        curves = [run if isinstance(run, Curve) else curve_of(*run) for run in runs]
        for curve in curves:  # refuses a list that falls or does not match, before the points are pooled
            fit_scaling_curve(curve.compute, curve.rate, np.inf)
        kept = [(curve.compute >= drop_below) & (curve.compute > 0) for curve in curves]
        return cls(curves, kept, float(np.mean([curve.rate[0] for curve in curves])), drop_below)

    def series(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Compute and rate of each run's kept points."""
        return [(curve.compute[keep], curve.rate[keep]) for curve, keep in zip(self.curves, self.kept, strict=True)]

    def pooled(self) -> tuple[np.ndarray, np.ndarray]:
        """Compute and rate of all kept points."""
        x_N, y_N = (np.concatenate(part) for part in zip(*self.series(), strict=True))
        return x_N, y_N

    def fit(self, x: np.ndarray, y: np.ndarray, start: float | None = None) -> ScalingFit:
        """The sigmoid through these points, whatever their order, from R0 = `start` (None: the arm's)."""
        order = np.argsort(x, kind="stable")
        return fit_scaling_curve(x[order], y[order], self.drop_below, self.initial if start is None else start)


def fit_arm(
    name: str,
    runs: Sequence[Curve | Series],
    drop_below: float = 0,
    resamples: int = 500,
    seed: int = 0,
    recenter: bool = False,
) -> ScalingArm:
    """Fit the sigmoid to the points of all `runs` (training seeds) at once; R0 is the mean of the runs' first rates.

    Several runs: the asymptote's interval is over runs, and over problems where all runs name the same ones
    (two_level_draws of `influences`: Student's t with one degree of freedom less than there are runs). One run that
    names its problems: over problems alone. One run whose points are independent: a bootstrap of residuals, over the
    noise of the points alone. One cumulative run: none. recenter: each run begins anew at its first point that is kept
    (Curve.recentred). No interval covers the chance that the curve is not a sigmoid:
    tools/scaling_checks.py looks for that. DataError for a run that is not a curve.
    """
    if recenter:
        runs = [(run if isinstance(run, Curve) else curve_of(*run)).recentred(drop_below) for run in runs]
        drop_below = 0
    points = Points.of(runs, drop_below)
    curves, (x_N, y_N) = points.curves, points.pooled()
    whole = points.fit(x_N, y_N)
    if whole.asymptote is None:
        return ScalingArm(name, whole, curves, None, "the fit failed", 1.0, np.zeros(0))
    values, draws, lost, over = None, np.zeros(0), 0.0, _over(curves)
    if over != ONE_CUMULATIVE_RUN:
        known = len(curves) > 1 or curves[0].problems is not None
        values = influences(whole, curves, points.kept) if known else None
        if values is not None:
            draws = two_level_draws(np.zeros((1, values.shape[1])), values, DRAWS, seed)
        else:
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


def _over(curves: Sequence[Curve]) -> str:
    """What the curves' interval is over, in words, or ONE_CUMULATIVE_RUN."""
    if len(curves) == 1 and curves[0].problems is None:
        return ONE_CUMULATIVE_RUN if curves[0].cumulative else "the points of one run"
    runs = "" if len(curves) == 1 else f"{len(curves)} runs"
    known = curves[0].problems is not None and all(curve.problems == curves[0].problems for curve in curves)
    return (
        f"{runs} and {len(curves[0].problems or ())} problems"
        if runs and known
        else runs or (f"{len(curves[0].problems or ())} problems of one run")
    )
