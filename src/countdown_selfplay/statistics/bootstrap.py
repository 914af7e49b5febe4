"""Confidence intervals by resampling problems: of a mean, and of the paired difference of two models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from ..errors import ConfigError, DataError
from .pass_at_k import pass_at_k_array

Bounds = tuple[float, float]
"""Least and greatest value that a problem can have."""
SHARE: Bounds = (0.0, 1.0)
"""Of pass@k, majorities, rates."""
CHANGE: Bounds = (-1.0, 1.0)
"""Of the difference of two shares."""

Z_95 = 1.959964  # 97.5% quantile of the standard normal distribution
_ALIKE = 1e-12  # resampled means that differ by less are the same but for rounding
_CHUNK = 2_000_000  # resampled values that are held in memory at once (16 MB)
_KEPT = 20_000_000  # counts that are kept from one call to the next (40 MB)


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
    values: Sequence[float] | np.ndarray,
    resamples: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
    bounds: Bounds | None = None,
) -> Estimate:
    """The mean with an interval over `resamples` draws of the values with replacement (Efron 1979).

    DataError if there is no value or one is not finite. Equal values give equal draws and an interval of width 0,
    unless `bounds` says between which values they lie (`alike_ends`).
    """
    array = finite_array(values, "values")
    low, high = ends(array, resampled_means(array, resamples, seed), level, bounds)
    return Estimate(float(array.mean()), low, high)


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


def share_interval(values: Sequence[float] | np.ndarray, resamples: int = 10_000, seed: int = 0) -> Estimate:
    """`bootstrap_mean` of a share of each problem's answers, or of a score from 0 to 1, with a width where all are
    equal (`alike_ends`). Scores beyond 0 and 1 have no bounds that are known here, and the bootstrap alone."""
    array = finite_array(values, "values")
    inside = SHARE[0] <= array.min() and array.max() <= SHARE[1]
    return bootstrap_mean(array, resamples, seed, bounds=SHARE if inside else None)


def alike_ends(value: float, problems: int, bounds: Bounds, level: float = 0.95) -> tuple[float, float]:
    """The ends of a mean's interval where all `problems` have the same `value`, which every resample repeats.

    None of P problems differs from the others, so the share of those that would has Wilson's interval for 0 of P, [0,
    w] with w = z^2 / (P + z^2) (Wilson 1927), and what differs lies within `bounds`: [v - w (v - low), v + w (high -
    v)]. Of shares at 0 and at 1 that is Wilson's own interval, [0, w] and [1 - w, 1]. Of the difference of two arms
    that are both all wrong or both all right it is [-w, w], as is the hybrid of their two Wilson intervals, paired or
    not (Newcombe 1998, method 10).
    """
    z2 = NormalDist().inv_cdf(tails(level)[1]) ** 2
    w = z2 / (problems + z2)
    return value - w * (value - bounds[0]), value + w * (bounds[1] - value)


def paired_bootstrap(
    correct_a: Sequence[int] | np.ndarray,
    correct_b: Sequence[int] | np.ndarray,
    n: int,
    k: int = 1,
    resamples: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """pass@k of b minus pass@k of a, on the same problems in the same order, with an interval.

    `correct_a`, `correct_b`: correct answers per problem out of `n`. A resample draws problems, so that a problem's
    two counts stay together (Allen and Ståblein, table 3). Where all problems differ alike: `alike_ends`. DataError if
    the lengths differ.
    """
    difference_P = paired_differences(correct_a, correct_b, n, k)
    low, high = ends(difference_P, resampled_means(difference_P, resamples, seed), level, CHANGE)
    return Interval(float(difference_P.mean()), low, high)


def two_sided_p(means: np.ndarray, problems: int) -> float:
    """Bootstrap p-value of "the difference is 0": twice the smaller share of resampled differences on either side of
    0, with one added to count and total so that it is never 0; at most 1. It is below 1 - level about where the
    percentile interval of that level excludes 0 (Efron and Tibshirani 1993, section 15.4). So it is of P `problems`
    that all differ by d: the interval of `alike_ends` excludes 0 where z^2 < P |d|."""
    below, above = int((means <= 0).sum()), int((means >= 0).sum())
    found = min(1.0, 2 * (min(below, above) + 1) / (len(means) + 1))
    alike = np.ptp(means) < _ALIKE
    return max(found, 2 * NormalDist().cdf(-((problems * abs(float(means[0]))) ** 0.5))) if alike else found


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for their number: the i-th smallest of m times m - i + 1, made monotone, at most 1 (Holm
    1979). The chance that any true null falls below .05 is then at most 5%, however they depend on each other."""
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, p_values[i] * (len(p_values) - rank)))
        adjusted[i] = highest
    return adjusted


def ends(values_P: np.ndarray, means: np.ndarray, level: float, bounds: Bounds | None = None) -> tuple[float, float]:
    """The two ends of the percentile interval of resampled means of `values_P`, within `bounds`; `alike_ends` where
    all of these means are the same."""
    low, high = tails(level)
    if bounds is not None and np.ptp(means) < _ALIKE:
        return alike_ends(float(values_P.mean()), len(values_P), bounds, level)
    first, last = np.clip(np.quantile(means, (low, high)), *(bounds or (-np.inf, np.inf)))
    return float(first), float(last)


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
    problems = len(values_P)
    draws = _kept_draws if resamples * problems <= _KEPT else _draws
    return np.concatenate([times_RP @ values_P for times_RP in draws(problems, resamples, seed)]) / problems


def _draws(problems: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """How often each problem is drawn in each resample, shape (some of the resamples, problems)."""
    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK // problems)
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        drawn_RP = rng.integers(problems, size=(rows, problems)) + np.arange(rows)[:, None] * problems
        yield np.bincount(drawn_RP.ravel(), minlength=rows * problems).reshape(rows, problems).astype(np.uint16)


@lru_cache(maxsize=1)
def _kept_draws(problems: int, resamples: int, seed: int) -> tuple[np.ndarray, ...]:
    """The same for a table's many differences over the same problems: to draw them costs ten times the rest."""
    return tuple(_draws(problems, resamples, seed))


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
