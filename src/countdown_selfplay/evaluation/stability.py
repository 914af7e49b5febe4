"""What a scaling fit stands up to: the two checks of SGS 2026, figure 8."""

from __future__ import annotations

import numpy as np

from ..statistics.scaling import ScalingFit
from .asymptotes import Points

TAILS = (0.1, 0.2, 0.3)  # shares of the last points that SGS takes off (appendix A, figure 8)
SUBSETS = 100  # fits on half of the points


def fits_without_tails(points: Points) -> dict[float, ScalingFit]:
    """Share of each run's last points that is taken off -> the fit to the rest; {} where a run has one point."""
    parts = points.series()
    found: dict[float, ScalingFit] = {}
    for share in TAILS if min(len(x) for x, _ in parts) > 1 else ():
        cut = [(x[: len(x) - round(share * len(x))], y[: len(x) - round(share * len(x))]) for x, y in parts]
        x_cut, y_cut = (np.concatenate(part) for part in zip(*cut, strict=True))
        found[share] = points.fit(x_cut, y_cut)
    return found


def fits_on_halves(points: Points, seed: int = 0, count: int = SUBSETS) -> list[ScalingFit]:
    """The fits to `count` random halves of all points that succeed."""
    rng = np.random.default_rng([seed, 1])
    x_N, y_N = points.pooled()
    halves = [rng.permutation(len(x_N))[: -(-len(x_N) // 2)] for _ in range(count)]
    found = [points.fit(x_N[half], y_N[half]) for half in halves]
    return [fit for fit in found if fit.converged]
