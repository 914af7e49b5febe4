"""Confidence intervals by resampling problems: of a mean, and of the paired difference of two models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from ..errors import ConfigError, DataError
from .pass_at_k import pass_at_k_array

Z_95 = 1.959964  # 97.5% quantile of the standard normal distribution
_CHUNK = 2_000_000  # resampled values that are held in memory at once (16 MB)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with the ends of its interval, in the value's own unit."""

    value: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Interval:
    """A difference b - a with the ends of its interval, in the unit of a and b."""

    difference: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


def bootstrap_mean(
    values: Sequence[float] | np.ndarray, resamples: int = 10_000, seed: int = 0, level: float = 0.95
) -> Estimate:
    """The mean with a percentile interval over `resamples` draws of the values with replacement (Efron 1979).

    DataError if there is no value or one is not finite. One value gives an interval of width 0: a single problem tells
    nothing about others, and nothing here pretends that it does.
    """
    array = finite_array(values, "values")
    low, high = np.quantile(resampled_means(array, resamples, seed), tails(level))
    return Estimate(float(array.mean()), float(low), float(high))


def wilson_interval(count: int, total: int) -> Estimate:
    """The share count / total of independent trials with Wilson's 95% score interval (Wilson 1927).

    Unlike a bootstrap it has a width at 0 and at 1: 0 of 512 is [0, 0.0075] and not "exactly 0". DataError unless
    0 <= count <= total and total >= 1.
    """
    if total < 1 or not 0 <= count <= total:
        raise DataError(f"A share needs 0 <= count <= total and a total above 0, got {count} of {total}.")
    share, z2 = count / total, Z_95**2
    center = (share + z2 / (2 * total)) / (1 + z2 / total)
    half = Z_95 / (1 + z2 / total) * (share * (1 - share) / total + z2 / (4 * total**2)) ** 0.5
    return Estimate(
        share, max(center - half, 0.0) if count else 0.0, min(center + half, 1.0) if count < total else 1.0
    )


def paired_bootstrap(
    correct_a: Sequence[int] | np.ndarray,
    correct_b: Sequence[int] | np.ndarray,
    n: int,
    k: int = 1,
    resamples: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """pass@k of b minus pass@k of a, on the same problems in the same order, with a percentile interval.

    `correct_a`, `correct_b`: correct answers per problem out of `n`. A resample draws problems, so that a problem's
    two counts stay together (seed 001, table 3). DataError if the lengths differ.
    """
    difference_P = paired_differences(correct_a, correct_b, n, k)
    low, high = np.quantile(resampled_means(difference_P, resamples, seed), tails(level))
    return Interval(float(difference_P.mean()), float(low), float(high))


def paired_differences(
    correct_a: Sequence[int] | np.ndarray, correct_b: Sequence[int] | np.ndarray, n: int, k: int
) -> np.ndarray:
    """pass@k of b minus that of a per problem, shape (problems,)."""
    if len(correct_a) != len(correct_b):
        raise DataError(
            f"A paired comparison needs both models on the same problems, got counts for {len(correct_a)} and "
            f"{len(correct_b)}."
        )
    return pass_at_k_array(correct_b, n, k) - pass_at_k_array(correct_a, n, k)


def resampled_means(values_P: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Means of `resamples` draws of P values with replacement, shape (resamples,). Its generator is private."""
    if resamples < 1:
        raise ConfigError(f"`resamples` ({resamples}) must be at least 1; 10,000 is usual.")
    rng = np.random.default_rng(seed)
    means = np.empty(resamples)
    step = max(1, _CHUNK // len(values_P))
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        means[start : start + rows] = values_P[rng.integers(len(values_P), size=(rows, len(values_P)))].mean(1)
    return means


def tails(level: float) -> tuple[float, float]:
    """The two quantiles that enclose `level` of a distribution."""
    if not 0 < level < 1:
        raise ConfigError(f"`level` ({level}) must lie between 0 and 1; 0.95 is usual.")
    return (1 - level) / 2, (1 + level) / 2


def finite_array(values: Sequence[float] | np.ndarray, name: str) -> np.ndarray:
    """`values` as float64, shape (len,). DataError if empty, of more than one dimension, or not finite."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise DataError(f"`{name}` must be a list with at least one number, got the shape {array.shape}.")
    if not np.isfinite(array).all():
        i = int(np.flatnonzero(~np.isfinite(array))[0])
        raise DataError(f"`{name}` must be finite, got {array[i]} at position {i}.")
    return array
