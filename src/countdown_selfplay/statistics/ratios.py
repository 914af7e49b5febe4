"""Ratios of sums with intervals over problems: a rate among the answers to which it applies, an F1."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from ..errors import ConfigError, DataError
from .bootstrap import CHANGE, SHARE, Estimate, Interval, alike_ends, bootstrap_mean, tails

_CHUNK = 1_000_000  # resampled problems that are held in memory at once


def ratio_interval(
    parts: Sequence[float],
    wholes: Sequence[float],
    clusters: Sequence[Hashable],
    resamples: int = 10_000,
    seed: int = 0,
) -> Estimate | None:
    """sum(parts) / sum(wholes) with a 95% percentile bootstrap that draws clusters (problems), so that a problem's
    items stay together; None if there is no whole, for then there is no rate.

    0 <= part <= whole for each item. Clusters without a whole are left out. Where all others have the same rate, such
    as 0 or 1, every draw is the same, and the interval is that of `alike_ends`: "0 of 40 problems" is not "exactly 0".
    DataError if the lists differ in length.
    """
    part_C, whole_C = _by_cluster(clusters, parts, wholes)
    taking_part = whole_C > 0
    part_C, whole_C = part_C[taking_part], whole_C[taking_part]
    if not whole_C.size:
        return None
    value = float(part_C.sum() / whole_C.sum())
    if np.ptp(part_C / whole_C) == 0:
        return Estimate(value, *alike_ends(value, whole_C.size, SHARE))
    if resamples < 1:
        raise ConfigError(f"`resamples` ({resamples}) must be at least 1; 10,000 is usual.")
    rng = np.random.default_rng(seed)
    size, drawn = whole_C.size, []
    step = max(1, _CHUNK // size)
    for start in range(0, resamples, step):
        rows = rng.integers(size, size=(min(step, resamples - start), size))
        drawn.append(part_C[rows].sum(1) / whole_C[rows].sum(1))
    low, high = np.quantile(np.concatenate(drawn), tails(0.95))
    return Estimate(value, float(low), float(high))


def change_interval(
    changes: Sequence[float], clusters: Sequence[Hashable], resamples: int = 10_000, seed: int = 0
) -> Interval:
    """The mean of paired changes, -1 to 1, with a percentile bootstrap over clusters of equal size (n answers a
    problem)."""
    total_C, count_C = _by_cluster(clusters, changes, [1.0] * len(changes))
    found = bootstrap_mean(total_C / count_C, resamples, seed, bounds=CHANGE)
    return Interval(float(np.sum(total_C) / np.sum(count_C)), found.low, found.high)


def _by_cluster(
    clusters: Sequence[Hashable], parts: Sequence[float], wholes: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    if not len(clusters) == len(parts) == len(wholes):
        raise DataError(
            f"A ratio needs a part, a whole and a cluster for each item, got {len(parts)}, {len(wholes)} and "
            f"{len(clusters)}."
        )
    place = {cluster: i for i, cluster in enumerate(dict.fromkeys(clusters))}
    index = np.array([place[cluster] for cluster in clusters], dtype=int)
    sums = [np.bincount(index, np.asarray(values, dtype=float), minlength=len(place)) for values in (parts, wholes)]
    return sums[0], sums[1]
