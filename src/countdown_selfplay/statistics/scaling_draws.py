"""How an asymptote moves with its data: with runs and problems, and with the noise of independent points."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .bootstrap import Z_95
from .curve import Curve
from .scaling import ScalingFit, jacobian
from .seeds import t_quantile


def influences(fit: ScalingFit, curves: Sequence[Curve], kept: Sequence[np.ndarray]) -> np.ndarray:
    """The asymptote as a mean of one value per run and problem, shape (runs, problems); one column unless all runs
    name the same problems.

    The value of a run is A plus S times what the run alone moves it by, of S runs. To first order (infinitesimal
    jackknife, Efron 1982) A moves by k . r, r the run's residuals and k the first row of (J'J)^-1 J', where J holds
    the curve's derivatives at all points by A, log C_mid and B; and by (1 - sum k) / S times the residual of the run's
    first rate, for R0 is the mean of these. A rate is a mean over problems, so a run's value is one, too. `kept`: the
    points of each curve that were fitted.
    """
    x_N = np.concatenate([curve.compute[keep] for curve, keep in zip(curves, kept, strict=True)])
    J_N3 = jacobian(fit, x_N)
    k_N = np.linalg.solve(J_N3.T @ J_N3, J_N3.T)[0]
    start = (1 - float(k_N.sum())) / len(curves)
    known = curves[0].problems is not None and all(curve.problems == curves[0].problems for curve in curves)
    rows, done = [], 0
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
    """Asymptotes of fits to the curve with resampled residuals, those that succeed.

    The residuals are centred and widened by sqrt(N / (N - 3)) for the three fitted values; added to the fitted curve
    and clipped to [0, 1] they are fitted again. R0 was observed too, so it gets a drawn residual (without it the 95%
    interval held the truth on 90% of simulated curves). Where neighbouring residuals are correlated (lag-1 correlation
    above 2 / sqrt(N)) they are drawn in circular blocks of N^(1/3); elsewhere singly, for the fit itself makes
    residuals alternate, and blocks would then understate the noise. The draws are spread by Student's t over the
    normal quantile: the size of the noise rests on N - 3 degrees of freedom.
    """
    residual = y_N - fit(x_N)
    count = len(x_N)
    block = max(1, round(count ** (1 / 3))) if _correlated(residual) else 1
    residual = (residual - residual.mean()) * (count / max(count - 3, 1)) ** 0.5
    found = []
    for _ in range(resamples):
        starts = rng.integers(count, size=-(-count // block))
        places = ((starts[:, None] + np.arange(block)) % count).ravel()[:count]
        start = float(np.clip(fit.initial + residual[rng.integers(count)], 0, 1))
        found.append(fit_again(x_N, np.clip(fit(x_N) + residual[places], 0, 1), start).asymptote)
    draws = np.array([value for value in found if value is not None])
    center = fit.asymptote or 0.0
    return np.asarray(center + (draws - center) * (float(t_quantile(0.975, count - 3)) / Z_95))


def _correlated(residual: np.ndarray) -> bool:
    d = residual - residual.mean()
    squares = float((d**2).sum())
    return len(d) > 2 and squares > 0 and float((d[1:] * d[:-1]).sum()) / squares > 2 / len(d) ** 0.5
