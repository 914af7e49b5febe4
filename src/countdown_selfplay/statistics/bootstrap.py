"""Confidence intervals by resampling problems (of a mean, of a ratio of sums, of the difference of two models) and,
over a few training seeds, by Student's t, alone and together with a bootstrap over problems."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from math import hypot
from statistics import NormalDist

import numpy as np

from ..errors import ConfigError, DataError
from .pass_at_k import pass_at_k_array

Bounds = tuple[float, float]
"""Lowest and highest possible value of a problem."""
SHARE: Bounds = (0.0, 1.0)
"""Bounds of pass@k, majority@k and rates."""
CHANGE: Bounds = (-1.0, 1.0)
"""Bounds of the difference of two shares."""

Z_95 = 1.959964  # 97.5% quantile of the standard normal distribution
_ALIKE = 1e-12  # resampled means that differ by less are the same but for rounding
_CHUNK = 2_000_000  # resampled values that are held in memory at once (16 MB)
_KEPT = 20_000_000  # counts that are kept from one call to the next (40 MB)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Value with the ends of its interval, in the value's unit."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Interval:
    """Difference b - a with the ends of its interval, in the unit of a and b."""

    difference: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.difference:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"

    def to_dict(self) -> dict[str, float]:
        return asdict(self)


def bootstrap_mean(
    values: Sequence[float] | np.ndarray,
    resamples: int = 10_000,
    seed: int = 0,
    bounds: Bounds | None = None,
) -> Estimate:
    """Return the mean with a 95% percentile interval over `resamples` draws with replacement (Efron 1979). Equal
    values give an interval of width 0, unless `bounds` gives their range (`alike_ends`). Raises DataError without a
    value or for one that is not finite."""
    array = finite_array(values, "values")
    low, high = ends(array, resampled_means(array, resamples, seed), bounds=bounds)
    return Estimate(float(array.mean()), low, high)


def wilson_interval(count: int, total: int) -> Estimate:
    """Return the share count / total of independent trials with Wilson's 95% score interval (Wilson 1927). Unlike a
    bootstrap it has a width at 0 and at 1: 0 of 512 is [0, 0.0075]. Raises DataError unless 0 <= count <= total and
    total >= 1."""
    if total < 1 or not 0 <= count <= total:
        raise DataError(f"A share needs 0 <= count <= total and a total above 0, got {count} of {total}.")
    share, z2 = count / total, Z_95**2
    center = (share + z2 / (2 * total)) / (1 + z2 / total)
    half = Z_95 / (1 + z2 / total) * (share * (1 - share) / total + z2 / (4 * total**2)) ** 0.5
    return Estimate(
        share, max(center - half, 0.0) if count else 0.0, min(center + half, 1.0) if count < total else 1.0
    )


def share_interval(values: Sequence[float] | np.ndarray, resamples: int = 10_000, seed: int = 0) -> Estimate:
    """Return `bootstrap_mean` of shares or scores per problem. If all are equal and in [0, 1], the interval still has
    a positive width (`alike_ends`); for equal scores outside [0, 1], whose bounds are unknown, the width is 0."""
    array = finite_array(values, "values")
    inside = SHARE[0] <= array.min() and array.max() <= SHARE[1]
    return bootstrap_mean(array, resamples, seed, bounds=SHARE if inside else None)


def alike_ends(value: float, problems: int, bounds: Bounds, level: float = 0.95) -> tuple[float, float]:
    """Return the ends of a mean's interval if all `problems` have the same `value`, which every resample repeats.
    No problem of P has another value, so that the share of other values has Wilson's interval for 0 of P, [0, w] with
    w = z^2 / (P + z^2) (Wilson 1927). As other values lie within `bounds`, [low, high], the ends for the value v are
    v - w (v - low) and v + w (high - v). For shares of 0 and 1 these are Wilson's, [0, w] and [1 - w, 1]. For the
    difference of two arms that are both all wrong or both all right they are -w and w, as are those of the hybrid of
    the two Wilson intervals, paired or not (Newcombe 1998, method 10)."""
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
) -> Interval:
    """Return pass@k of b minus pass@k of a, on the same problems in the same order, with a 95% interval.
    `correct_a`, `correct_b`: correct answers per problem out of `n`. A resample draws problems, so that a
    problem's two counts stay together (Allen and Ståblein, table 3); for equal differences: `alike_ends`. Raises
    DataError if the lengths differ."""
    difference_P = paired_differences(correct_a, correct_b, n, k)
    low, high = ends(difference_P, resampled_means(difference_P, resamples, seed), bounds=CHANGE)
    return Interval(float(difference_P.mean()), low, high)


def two_sided_p(means: np.ndarray, problems: int) -> float:
    """Return the bootstrap p-value of "the difference is 0": twice the smaller share of resampled differences on
    either side of 0, with one added to count and total so that it is never 0; at most 1. It is below 1 - level about
    where the percentile interval of that level excludes 0 (Efron and Tibshirani 1993, section 15.4). This also holds
    for P `problems` that all differ by d: the interval of `alike_ends` excludes 0 if z^2 < P |d|."""
    below, above = int((means <= 0).sum()), int((means >= 0).sum())
    p_value = min(1.0, 2 * (min(below, above) + 1) / (len(means) + 1))
    alike = np.ptp(means) < _ALIKE
    return max(p_value, 2 * NormalDist().cdf(-((problems * abs(float(means[0]))) ** 0.5))) if alike else p_value


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted for multiple testing (Holm 1979): the i-th smallest of m times m - i + 1, monotone, at
    most 1. The probability that any true null hypothesis has p < .05 is then at most 5% under any dependence."""
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, p_values[i] * (len(p_values) - rank)))
        adjusted[i] = highest
    return adjusted


def ends(
    values_P: np.ndarray, means: np.ndarray, level: float = 0.95, bounds: Bounds | None = None
) -> tuple[float, float]:
    """Return the two ends of the percentile interval of resampled means of `values_P`, within `bounds`; if all these
    means are equal and `bounds` is given, those of `alike_ends`."""
    low, high = tails(level)
    if bounds is not None and np.ptp(means) < _ALIKE:
        return alike_ends(float(values_P.mean()), len(values_P), bounds, level)
    first, last = np.clip(np.quantile(means, (low, high)), *(bounds or (-np.inf, np.inf)))
    return float(first), float(last)


def paired_differences(
    correct_a: Sequence[int] | np.ndarray, correct_b: Sequence[int] | np.ndarray, n: int, k: int
) -> np.ndarray:
    """Return pass@k of b minus pass@k of a for each problem, (problems,). Raises DataError if the lengths differ."""
    if len(correct_a) != len(correct_b):
        raise DataError(
            f"A paired comparison needs the same problems, got {len(correct_a)} and {len(correct_b)} counts."
        )
    return pass_at_k_array(correct_b, n, k) - pass_at_k_array(correct_a, n, k)


def resampled_means(values_P: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Return means of `resamples` draws of P values with replacement, (resamples,); deterministic given `seed`."""
    if resamples < 1:
        raise ConfigError(f"`resamples` ({resamples}) must be at least 1; 10,000 is usual.")
    problems = len(values_P)
    draws = _kept_draws if resamples * problems <= _KEPT else _draws
    return np.concatenate([times_RP @ values_P for times_RP in draws(problems, resamples, seed)]) / problems


def _draws(problems: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Yield counts of how often each resample draws each problem, shape (some of the resamples, problems)."""
    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK // problems)
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        drawn_RP = rng.integers(problems, size=(rows, problems)) + np.arange(rows)[:, None] * problems
        yield np.bincount(drawn_RP.ravel(), minlength=rows * problems).reshape(rows, problems).astype(np.uint16)


@lru_cache(maxsize=1)
def _kept_draws(problems: int, resamples: int, seed: int) -> tuple[np.ndarray, ...]:
    """Return `_draws` from a cache, for tables with many differences over the same problems."""
    return tuple(_draws(problems, resamples, seed))


def tails(level: float) -> tuple[float, float]:
    """Return the two quantiles that enclose `level` of a distribution."""
    return (1 - level) / 2, (1 + level) / 2


def finite_array(values: Sequence[float] | np.ndarray, name: str) -> np.ndarray:
    """Return `values` as float64, shape (len,). Raises DataError if empty, not 1-D, or not finite."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise DataError(f"`{name}` must be a list with at least one number, got the shape {array.shape}.")
    if not np.isfinite(array).all():
        i = int(np.flatnonzero(~np.isfinite(array))[0])
        raise DataError(f"`{name}` must be finite, got {array[i]} at position {i}.")
    return array


def independent_difference(a: Estimate, b: Estimate) -> Interval:
    """Return b - a with an interval from those of a and b, at their level: each end's distance is the root of the
    summed squared distances of the corresponding ends (Newcombe 1998 for Wilson's intervals of shares; Zou and Donner
    2008 for any two). Paired samples would give a narrower one."""
    difference = b.value - a.value
    low = difference - hypot(b.value - b.low, a.high - a.value)
    return Interval(difference, low, difference + hypot(b.high - b.value, a.value - a.low))


def ratio_interval(
    parts: Sequence[float], wholes: Sequence[float], clusters: Sequence[Hashable], seed: int = 0
) -> Estimate | None:
    """Return sum(parts) / sum(wholes) with a 95% percentile bootstrap that draws clusters (problems), so that a
    problem's items stay together; None if all wholes are 0. 0 <= part <= whole for each item. Clusters whose whole is
    0 are left out. If the others have equal rates, such as 0 or 1, the interval is that of `alike_ends`. Raises
    DataError if the lists differ in length."""
    part_C, whole_C = _by_cluster(clusters, parts, wholes)
    taking_part = whole_C > 0
    part_C, whole_C = part_C[taking_part], whole_C[taking_part]
    if not whole_C.size:
        return None
    value = float(part_C.sum() / whole_C.sum())
    if np.ptp(part_C / whole_C) == 0:
        return Estimate(value, *alike_ends(value, whole_C.size, SHARE))
    drawn = resampled_means(part_C, 10_000, seed) / resampled_means(whole_C, 10_000, seed)
    low, high = np.quantile(drawn, tails(0.95))
    return Estimate(value, float(low), float(high))


def change_interval(changes: Sequence[float], clusters: Sequence[Hashable], seed: int = 0) -> Interval:
    """Return the mean of paired changes in [-1, 1] with a 95% percentile interval over clusters of equal size."""
    total_C, count_C = _by_cluster(clusters, changes, [1.0] * len(changes))
    interval = bootstrap_mean(total_C / count_C, seed=seed, bounds=CHANGE)
    return Interval(float(np.sum(total_C) / np.sum(count_C)), interval.low, interval.high)


def _by_cluster(
    clusters: Sequence[Hashable], parts: Sequence[float], wholes: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    lengths = len(parts), len(wholes), len(clusters)
    if len(set(lengths)) > 1:
        raise DataError(f"A ratio needs a part, a whole and a cluster for each item, got {lengths} of them.")
    place = {cluster: i for i, cluster in enumerate(dict.fromkeys(clusters))}
    index = np.array([place[cluster] for cluster in clusters], dtype=int)
    sums = [np.bincount(index, np.asarray(values, dtype=float), minlength=len(place)) for values in (parts, wholes)]
    return sums[0], sums[1]


def t_quantile(share: float | np.ndarray, freedom: float) -> np.ndarray:
    """Return quantiles of Student's t with max(freedom, 1) degrees of freedom, not necessarily whole."""
    from scipy.special import stdtrit  # as long an import as that of all else here

    return np.asarray(stdtrit(max(float(freedom), 1.0), share))


def t_interval(values: Sequence[float] | np.ndarray) -> Estimate:
    """Return the mean with Student's 95% interval. Raises DataError with fewer than two values."""
    array = finite_array(values, "values")
    if len(array) < 2:
        raise DataError("A t interval needs at least two values.")
    half = float(t_quantile(0.975, len(array) - 1)) * float(array.std(ddof=1)) / len(array) ** 0.5
    mean = float(array.mean())
    return Estimate(mean, mean - half, mean + half)


def two_level_bootstrap(
    correct_a: Sequence[Sequence[int]] | np.ndarray,
    correct_b: Sequence[Sequence[int]] | np.ndarray,
    n: int,
    k: int = 1,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Return pass@k of method b minus that of method a over several training seeds each, within [-1, 1].
    `correct_a`, `correct_b`: correct answers out of `n`, one list over the same problems per training seed. The
    interval covers a new training run on new problems (`two_level_draws`). One seed per method gives
    `paired_bootstrap`: an interval over problems alone, for these weights. If one side has a single seed, its
    spread over seeds is unknown and not in the interval."""
    for rows in (correct_a, correct_b):
        if not len(rows) or np.ndim(rows[0]) != 1 or len({len(row) for row in rows}) != 1:
            raise DataError("Counts must be one list per training seed, all over the same problems.")
    a_SP, b_SP = (np.stack([pass_at_k_array(row, n, k) for row in rows]) for rows in (correct_a, correct_b))
    return two_level_interval(a_SP, b_SP, resamples, seed)


def two_level_interval(a_SP: np.ndarray, b_SP: np.ndarray, resamples: int = 10_000, seed: int = 0) -> Interval:
    """Return the interval of `two_level_bootstrap` for any rates per training seed (rows) and problem (columns)."""
    draws = two_level_draws(a_SP, b_SP, resamples, seed)
    difference_P = b_SP.mean(0) - a_SP.mean(0)
    low, high = ends(difference_P, draws, bounds=CHANGE)
    return Interval(float(difference_P.mean()), low, high)


def two_level_draws(a_SP: np.ndarray, b_SP: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Return draws of mean b - mean a, shape (resamples,), whose quantiles are the ends of an interval. Rows are the
    training seeds of each side, columns the problems of both.

    A draw is the difference plus two parts. The problems' part is a bootstrap of the differences per problem, averaged
    over seeds. The seeds' part is sqrt(V) times Student's t with f degrees of freedom, where V = V_a + V_b is the sum
    of s^2 / S over the sides, s^2 the variance of a side's seed means with denominator S - 1, and f is Welch's (1947)
    V^2 / (V_a^2 / (S_a - 1) + V_b^2 / (S_b - 1)). Resampling the seeds would use denominator S and the normal quantile
    z in place of t, so that its interval is too narrow by a factor of sqrt(S / (S - 1)) t / z: 9.2 for one side with 2
    seeds, 2.7 with 3, 1.6 with 5, near 1 with many. The noise of single answers and the effect of a seed on single
    problems are in both parts, and are removed from the problems' part: its draws are multiplied by sqrt(1 - W / U),
    where U is the variance of that part, and W sums over the sides the residual mean square of seeds x problems,
    divided by S P. A side with one seed has no seeds' part. Draws are deterministic given `seed`."""
    problems = a_SP.shape[1]
    if problems != b_SP.shape[1]:
        raise DataError(f"Both methods must be scored on the same problems, got {problems} and {b_SP.shape[1]}.")
    difference_P = b_SP.mean(0) - a_SP.mean(0)
    center = float(difference_P.mean())
    draws = resampled_means(difference_P, resamples, seed) - center
    sides = [values_SP for values_SP in (a_SP, b_SP) if len(values_SP) > 1]
    freedoms = [len(values_SP) - 1 for values_SP in sides]
    spreads = [float(values_SP.mean(1).var(ddof=1)) / len(values_SP) for values_SP in sides]
    variance = sum(spreads)
    shared = sum(_residual_variance(values_SP) / values_SP.size for values_SP in sides)
    within = float(difference_P.var(ddof=1)) / problems if problems > 1 else 0.0
    if shared > 0 and within > 0:
        draws *= max(0.0, 1 - shared / within) ** 0.5
    if variance > 0:
        freedom = variance**2 / sum(v**2 / f for v, f in zip(spreads, freedoms, strict=True))
        shares = (np.random.default_rng([seed, 1]).permutation(resamples) + 0.5) / resamples
        draws += variance**0.5 * t_quantile(shares, freedom)
    return draws + center


def _residual_variance(values_SP: np.ndarray) -> float:
    seeds, problems = values_SP.shape
    rest = values_SP - values_SP.mean(0) - values_SP.mean(1, keepdims=True) + values_SP.mean()
    return float((rest**2).sum()) / max((seeds - 1) * (problems - 1), 1)
