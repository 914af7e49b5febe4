"""How far a fitted asymptote can be trusted: a bootstrap, seed 003's two checks, and when two may be ranked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from ..errors import DataError
from .bootstrap import Z_95, Estimate, Interval, finite_array, t_quantile
from .scaling import ScalingFit, fit_scaling_curve

Series = tuple[Sequence[float], Sequence[float]]
"""Compute and rate of one run."""

TAILS = (0.1, 0.2, 0.3)  # shares of the last points that seed 003 takes off (appendix A, figure 8)
SUBSETS = 100  # fits on half of the points
_MOST_FAILED = 0.05  # share of resampled fits that may fail before the interval says nothing
_UNSTABLE = 0.5  # and before the fit itself does


@dataclass(frozen=True)
class Assessment:
    """A fit and what it stands up to.

    fit: failed, too, if more than half of the resampled fits did.
    interval: 95% bootstrap interval of the asymptote, None if the fit or more than 5% of the resampled fits failed.
    tails: share of points taken off at the end -> asymptote, None where the fit failed. subsets: asymptotes of fits on
    random halves of the points. failed: share of resampled, and of halved, fits that failed. draws: resampled
    asymptotes.
    """

    name: str
    fit: ScalingFit
    series: list[tuple[np.ndarray, np.ndarray]]
    interval: Estimate | None
    failed: tuple[float, float]
    tails: dict[float, float | None]
    subsets: np.ndarray
    draws: np.ndarray

    @property
    def subset_sd(self) -> float | None:
        """Standard deviation of the asymptote over the halves (seed 003: 1.1 points); None if under 2 succeeded."""
        return float(self.subsets.std(ddof=1)) if len(self.subsets) > 1 else None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        fit, sd = self.fit, self.subset_sd
        return {
            "name": self.name,
            "runs": len(self.series),
            "points": sum(len(x) for x, _ in self.series),
            "converged": fit.converged,
            "reason": fit.reason,
            "asymptote": fit.asymptote,
            "c_mid": fit.c_mid,
            "slope": fit.slope,
            "initial": fit.initial,
            "standard_error": fit.error,
            "residual": fit.residual,
            "interval": None if self.interval is None else self.interval.to_dict(),
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
    runs: Sequence[Series],
    drop_below: float = 0,
    resamples: int = 500,
    seed: int = 0,
    subsets: int | None = None,
) -> Assessment:
    """Fit the sigmoid to the points of all `runs` (training seeds) at once and check it.

    R0 is the mean of the runs' first rates. The bootstrap is one of residuals: a resample draws runs (where there are
    several), and in each run its residuals, widened by sqrt(N / (N - 3)) for the three fitted values; added to the
    fitted curve and clipped to [0, 1] they are fitted again. R0 was observed too, so it gets a drawn residual (without
    it the 95% interval held the truth on 90% of simulated curves). Where neighbouring residuals are correlated (lag-1
    correlation above 2 / sqrt(N), as in a cumulative rate) they are drawn in circular blocks of N^(1/3); elsewhere
    singly, for the fit itself makes residuals alternate, and blocks would then understate the noise. With one run the
    residuals are centred; with several they are centred over all runs, so that a run which lies high stays high. The
    draws are spread by Student's t over the normal quantile: the size of the noise rests on N - 3 degrees of freedom.
    The interval covers noise around a sigmoid, not the chance that the curve is none: the other two checks look for
    that. They fit again without the last 10, 20 and 30% of each run's points, and on `subsets` (100) random halves of
    all points. DataError for a run that is no curve.
    """
    if not runs:
        raise DataError("A scaling fit needs at least one run.")
    subsets = SUBSETS if subsets is None else subsets
    series = [(finite_array(x, "compute"), finite_array(y, "rate")) for x, y in runs]
    initial = float(np.mean([y[0] for _, y in series]))

    def fit(curves: Sequence[tuple[np.ndarray, np.ndarray]], start: float = initial) -> ScalingFit:
        x, y = (np.concatenate(part) for part in zip(*curves, strict=True))
        order = np.argsort(x, kind="stable")
        return fit_scaling_curve(x[order], y[order], drop_below, start)

    for x, y in series:  # refuses a list that falls or does not match, before the points are pooled
        fit_scaling_curve(x, y, np.inf)
    whole = fit(series)
    kept = [(x[(x >= drop_below) & (x > 0)], y[(x >= drop_below) & (x > 0)]) for x, y in series]
    tails = {
        share: fit(
            [(x[: len(x) - round(share * len(x))], y[: len(y) - round(share * len(y))]) for x, y in kept]
        ).asymptote
        for share in TAILS
        if min(len(x) for x, _ in kept) > 1
    }
    none = np.zeros(0)
    if not whole.converged:
        return Assessment(name, whole, series, None, (1.0, 1.0), tails, none, none)
    rng = np.random.default_rng(seed)
    drawn = [fit(*_resampled(kept, whole, rng)).asymptote for _ in range(resamples)]
    halves = [fit(_half(kept, rng)).asymptote for _ in range(subsets)]
    draws = np.array([value for value in drawn if value is not None])
    if whole.asymptote is not None:  # Student's t for the scale, which rests on the residuals
        freedom = sum(len(x) for x, _ in kept) - 3
        draws = np.clip(whole.asymptote + (draws - whole.asymptote) * (t_quantile(freedom) / Z_95), 0, 1)
    halved = np.array([value for value in halves if value is not None])
    failed = (1 - len(draws) / max(resamples, 1), 1 - len(halved) / max(subsets, 1))
    if failed[0] > _UNSTABLE:
        reason = f"{failed[0]:.0%} of the fits to resampled residuals failed: the data do not determine the curve."
        whole = ScalingFit(None, None, None, initial, False, reason)
    interval = None
    if len(draws) and failed[0] <= _MOST_FAILED and whole.asymptote is not None:
        low, high = np.quantile(draws, (0.025, 0.975))
        interval = Estimate(whole.asymptote, float(low), float(high))
    return Assessment(name, whole, series, interval, failed, tails, halved, draws)


@dataclass(frozen=True)
class Ranking:
    """Two arms: which has the higher asymptote, or why that cannot be said. difference: higher minus lower."""

    first: str
    second: str
    ranked: bool
    sentence: str
    difference: Interval | None = None


def rank(found: Sequence[Assessment], seed: int = 0) -> list[Ranking]:
    """Every pair. Two asymptotes are ranked only if both fits converged, they differ by more than the larger of their
    standard deviations over halves of the points (seed 003 treats less "cautiously"), and the bootstrap interval of
    the difference excludes 0. The interval is one per pair and not adjusted for their number."""
    return [_pair(a, b, seed) for a, b in combinations(found, 2)]


def _pair(a: Assessment, b: Assessment, seed: int) -> Ranking:
    for one in (a, b):
        if one.fit.asymptote is None:
            return Ranking(a.name, b.name, False, f"{a.name} and {b.name}: not ranked, the fit of {one.name} failed.")
        if one.interval is None or one.subset_sd is None:
            return Ranking(
                a.name,
                b.name,
                False,
                f"{a.name} and {b.name}: not ranked, {one.failed[0]:.0%} of the resampled fits of {one.name} failed.",
            )
    if (a.fit.asymptote or 0) < (b.fit.asymptote or 0):
        a, b = b, a
    rng = np.random.default_rng(seed)
    draws = rng.choice(a.draws, 10_000) - rng.choice(b.draws, 10_000)
    value = float(a.fit.asymptote or 0) - float(b.fit.asymptote or 0)
    low, high = (float(end) for end in np.quantile(draws, (0.025, 0.975)))
    spread = max(a.subset_sd or 0.0, b.subset_sd or 0.0)
    numbers = f"{value:+.4f} [{low:+.4f}, {high:+.4f}], spread over halves of the points {spread:.4f}"
    interval = Interval(value, low, high)
    if value <= spread or low <= 0:
        sentence = f"{a.name} and {b.name}: not ranked, their asymptotes are closer than they are known ({numbers})."
        return Ranking(a.name, b.name, False, sentence, interval)
    return Ranking(a.name, b.name, True, f"{a.name} above {b.name}: {numbers}.", interval)


def _resampled(
    kept: Sequence[tuple[np.ndarray, np.ndarray]], fit: ScalingFit, rng: np.random.Generator
) -> tuple[list[tuple[np.ndarray, np.ndarray]], float]:
    """The curves of one resample and its R0."""
    residuals = [y - fit(x) for x, y in kept]
    pooled = np.concatenate(residuals)
    center = float(pooled.mean())
    wider = (
        len(pooled) / max(len(pooled) - 3, 1)
    ) ** 0.5  # three values were fitted: residuals are smaller than noise
    chosen = rng.integers(len(kept), size=len(kept)) if len(kept) > 1 else [0]
    curves, noise = [], []
    for i in chosen:
        x, residual = kept[i][0], (residuals[i] - center) * wider
        if len(x) == 0:
            continue
        block = max(1, round(len(x) ** (1 / 3))) if _correlated(residuals[i]) else 1
        starts = rng.integers(len(x), size=-(-len(x) // block))
        places = ((starts[:, None] + np.arange(block)) % len(x)).ravel()[: len(x)]
        curves.append((x, np.clip(fit(x) + residual[places], 0, 1)))
        noise.append(residual[rng.integers(len(x))])
    if not curves:
        return list(kept), fit.initial
    return curves, float(np.clip(fit.initial + np.mean(noise), 0, 1))


def _half(
    kept: Sequence[tuple[np.ndarray, np.ndarray]], rng: np.random.Generator
) -> list[tuple[np.ndarray, np.ndarray]]:
    x, y = (np.concatenate(part) for part in zip(*kept, strict=True))
    chosen = rng.permutation(len(x))[: -(-len(x) // 2)]
    return [(x[chosen], y[chosen])]


def _correlated(residual: np.ndarray) -> bool:
    d = residual - residual.mean()
    squares = float((d**2).sum())
    return len(d) > 2 and squares > 0 and float((d[1:] * d[:-1]).sum()) / squares > 2 / len(d) ** 0.5
