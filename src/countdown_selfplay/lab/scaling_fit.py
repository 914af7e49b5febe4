"""The sigmoid that SGS (2026) fits to the cumulative solve rate, on log compute and with bounds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import ConfigError, DataError
from ..statistics.bootstrap import finite_array

_SLOPES = (0.1, 10.0)  # bounds of B; outside them the curve is a straight line or a step
_BEYOND = 10.0  # C_mid may lie this many times outside the observed compute
_GRID = 41  # points per axis of the first grid
_FINER = 13  # and of the following ones, each 0.6 times as wide: the best point stays three and a half steps inside
_SHRINK = 0.6
_ZOOMS = 32
_LARGEST_ERROR = 0.1  # standard error of the asymptote above which it counts as not determined


@dataclass(frozen=True)
class ScalingCurve:
    """Compute and rate of one run, by ascending compute. cumulative: whether the rate is a growing share of problems,
    whose points are not independent. problems: their keys, and first: index of the point from which on each is solved
    (len(compute): never); None if unknown."""

    compute: np.ndarray
    rate: np.ndarray
    cumulative: bool = False
    problems: tuple[str, ...] | None = None
    first: np.ndarray | None = None

    def recentred(self, drop_below: float) -> "ScalingCurve":
        """Return the points from `drop_below` on, with compute counted from the first of them (SGS 2026, appendix A:
        the gains after the low-compute phase), or the curve itself without such a point."""
        cut = int((self.compute < drop_below).sum())
        if cut == len(self.compute):
            return self
        first = None if self.first is None else np.maximum(self.first - cut, 0)
        return replace(self, compute=self.compute[cut:] - self.compute[cut], rate=self.rate[cut:], first=first)


@dataclass(frozen=True)
class ScalingFit:
    """R(C) = initial + (asymptote - initial) / (1 + (c_mid / C) ** slope). If converged is False the three fitted
    values are None and `reason` explains it. error: standard error of the asymptote; residual: root mean square."""

    asymptote: float | None
    c_mid: float | None
    slope: float | None
    initial: float
    converged: bool
    reason: str = ""
    error: float | None = None
    residual: float | None = None
    origin: float = 0.0
    """Compute from which C and c_mid are counted; above 0 in a re-centred fit."""

    def __call__(self, compute: float | np.ndarray) -> np.ndarray:
        """Return the curve at `compute` (0 or above). Raises ConfigError if the fit failed."""
        if self.asymptote is None or self.c_mid is None or self.slope is None:
            raise ConfigError(f"The scaling fit did not converge and has no curve: {self.reason}")
        since = np.maximum(np.asarray(compute, dtype=float) - self.origin, 0.0)
        share = _share(np.atleast_1d(since), np.log(self.c_mid), self.slope)
        return np.asarray(self.initial + (self.asymptote - self.initial) * share).reshape(np.shape(compute))


def fit_scaling_curve(
    compute: Sequence[float] | np.ndarray,
    rate: Sequence[float] | np.ndarray,
    drop_below: float = 0,
    initial: float | None = None,
    recenter: bool = False,
) -> ScalingFit:
    """Fit the sigmoid by least squares to rates in [0, 1] at growing compute (generations, tokens or seconds).

    R0 is the first observed rate, or `initial`; points with compute below `drop_below` are then left out (SGS:
    100,000). recenter: R0 is then the first remaining rate, and compute counts from there, as in the paper (appendix
    A). The fit searches log C_mid within a factor of 10 around the observed compute and B in [0.1, 10]; for each pair
    the best asymptote in [R0, 1] is a linear problem with one solution, so that there is no starting value. A fit
    whose best point is on a bound, or whose asymptote has a standard error above 0.1, is reported as failed: the data
    do not show the bend. Raises DataError for lists that do not match or are out of range."""
    x, y = finite_array(compute, "compute"), finite_array(rate, "rate")
    if len(x) != len(y):
        raise DataError(f"`compute` and `rate` must be of one length, got {len(x)} and {len(y)}.")
    if (np.diff(x) < 0).any() or x[0] < 0:
        raise DataError("`compute` must be 0 or above and must not fall: sort the points first.")
    if y.min() < 0 or y.max() > 1:
        raise DataError(f"`rate` must lie in [0, 1], got values from {y.min():g} to {y.max():g}.")
    if recenter and (x >= drop_below).any():
        later = x >= drop_below
        origin = float(x[later][0])
        return replace(fit_scaling_curve(x[later] - origin, y[later], 0, initial), origin=origin)
    if initial is None:
        initial = float(y[0])
    kept = (x >= drop_below) & (x > 0)
    x, y = x[kept], y[kept]

    def failed(reason: str) -> ScalingFit:
        return ScalingFit(None, None, None, initial, False, reason)

    if len(np.unique(x)) < 4:
        return failed(f"{len(np.unique(x))} distinct points are left, and at least 4 are needed.")
    if not (y > initial).any():
        return failed("The rate never rose above its first value.")
    gain, log_mid, slope, on_bound = _search(x, y - initial, 1 - initial)
    if on_bound:
        return failed(f"The best fit lies on a bound ({on_bound}): the data do not show where the curve bends.")
    residual = y - initial - gain * _share(x, log_mid, slope)
    rms = float(np.sqrt((residual**2).mean()))
    fit = ScalingFit(initial + gain, float(np.exp(log_mid)), slope, initial, True, residual=rms)
    slopes_N3 = jacobian(fit, x)
    curvature = slopes_N3.T @ slopes_N3
    error = float("inf")  # of the asymptote, from the curvature at the optimum (Gauss-Newton)
    if np.linalg.cond(curvature) <= 1e12:
        error = float(np.sqrt(np.linalg.inv(curvature)[0, 0] * ((residual**2).sum() / max(len(x) - 3, 1))))
    if not error <= _LARGEST_ERROR:
        return failed(f"The asymptote has a standard error of {error:.2g}: the data do not determine it.")
    return replace(fit, error=error)


def _share(x: np.ndarray, log_mid: float, slope: float) -> np.ndarray:
    """Return 1 / (1 + (C_mid / C) ** B) for C > 0, 0 at C = 0."""
    with np.errstate(divide="ignore", over="ignore"):
        return 1 / (1 + np.exp(slope * (log_mid - np.log(x))))


def _search(x: np.ndarray, rise: np.ndarray, most: float) -> tuple[float, float, float, str]:
    """Return gain, log C_mid, B of the least squares, and the name of one on a bound."""
    mids = (np.log(x.min() / _BEYOND), np.log(x.max() * _BEYOND))
    slopes = (np.log(_SLOPES[0]), np.log(_SLOPES[1]))
    center, half = np.array([sum(mids) / 2, sum(slopes) / 2]), np.array([np.ptp(mids) / 2, np.ptp(slopes) / 2])
    gain = 0.0
    for zoom in range(_ZOOMS):
        size = _GRID if zoom == 0 else _FINER
        grids = [
            np.clip(np.linspace(c - h, c + h, size), *bounds)
            for c, h, bounds in zip(center, half, (mids, slopes), strict=True)
        ]
        m, b = (axis.ravel()[:, None] for axis in np.meshgrid(*grids, indexing="ij"))
        share_GN = 1 / (1 + np.exp(np.minimum(np.exp(b) * (m - np.log(x)), 500)))
        gain_G = np.clip((share_GN @ rise) / np.maximum((share_GN**2).sum(1), 1e-300), 0, most)
        best = int(((rise - gain_G[:, None] * share_GN) ** 2).sum(1).argmin())
        center, gain = np.array([m[best, 0], b[best, 0]]), float(gain_G[best])
        half = half * (2 / _GRID * 3.5 if zoom == 0 else _SHRINK)
    limits = (("C_mid", center[0], mids), ("B", center[1], slopes), ("asymptote 1", gain, (-np.inf, most)))
    on_bound = [name for name, value, (low, high) in limits if value - low < 1e-6 or high - value < 1e-6]
    return gain, float(center[0]), float(np.exp(center[1])), on_bound[-1] if on_bound else ""


def jacobian(fit: ScalingFit, x: np.ndarray) -> np.ndarray:
    """Return derivatives of a converged curve at `x` > 0 by asymptote, log C_mid and B, shape (len(x), 3)."""
    log_mid, slope = np.log(fit.c_mid or 0), fit.slope or 0.0
    share = _share(x, log_mid, slope)
    inner = ((fit.asymptote or 0.0) - fit.initial) * share * (1 - share)
    return np.stack([share, -slope * inner, inner * (np.log(x) - log_mid)], 1)
