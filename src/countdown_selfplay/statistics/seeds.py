"""Intervals over a handful of training seeds: Student's t, alone and together with a bootstrap over problems."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit

from ..errors import DataError
from .bootstrap import CHANGE, Estimate, Interval, ends, finite_array, resampled_means
from .pass_at_k import pass_at_k_array


def t_quantile(share: float | np.ndarray, freedom: float) -> np.ndarray:
    """Quantiles of Student's t with `freedom` degrees of freedom, 1 or more and not necessarily whole."""
    return np.asarray(stdtrit(max(float(freedom), 1.0), share))


def t_interval(values: Sequence[float] | np.ndarray) -> Estimate:
    """The mean with Student's 95% interval, for a handful of values such as one per training seed. DataError with
    fewer than two."""
    array = finite_array(values, "values")
    if len(array) < 2:
        raise DataError("A t interval needs at least two values.")
    half = float(t_quantile(0.975, len(array) - 1)) * float(array.std(ddof=1)) / len(array) ** 0.5
    return Estimate(float(array.mean()), float(array.mean()) - half, float(array.mean()) + half)


def two_level_bootstrap(
    correct_a: Sequence[Sequence[int]] | np.ndarray,
    correct_b: Sequence[Sequence[int]] | np.ndarray,
    n: int,
    k: int = 1,
    resamples: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """pass@k of method b minus that of method a over several training seeds each, within [-1, 1].

    `correct_a`, `correct_b`: correct answers out of `n`, one list over the same problems per training seed. The
    interval covers a new training run on new problems (`two_level_draws` says how). One seed per method gives
    `paired_bootstrap`: an interval over problems alone, about these weights. If one side has a single seed, the spread
    over that side's seeds is unknown and not in the interval.
    """
    a_SP, b_SP = (np.stack([pass_at_k_array(row, n, k) for row in _seeds(rows)]) for rows in (correct_a, correct_b))
    return two_level_interval(a_SP, b_SP, resamples, seed, level)


def two_level_interval(
    a_SP: np.ndarray, b_SP: np.ndarray, resamples: int = 10_000, seed: int = 0, level: float = 0.95
) -> Interval:
    """`two_level_bootstrap` of any rates per training seed (rows) and problem (columns), such as shares of votes."""
    draws = two_level_draws(a_SP, b_SP, resamples, seed)
    difference_P = b_SP.mean(0) - a_SP.mean(0)
    low, high = ends(difference_P, draws, level, CHANGE)
    return Interval(float(difference_P.mean()), low, high)


def two_level_draws(a_SP: np.ndarray, b_SP: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Draws of mean b - mean a, shape (resamples,), whose quantiles are the ends of its interval. Rows are training
    seeds of each side, columns the problems of both.

    A draw is the difference plus two parts. The problems' part is a bootstrap of the differences per problem, averaged
    over seeds. The seeds' part is sqrt(V) times Student's t with f degrees of freedom, where V = V_a + V_b is the sum
    of s^2 / S over the sides, s^2 the variance of a side's seed means with S - 1 below the line, and f is Welch's
    (1947) V^2 / (V_a^2 / (S_a - 1) + V_b^2 / (S_b - 1)). Drawing the seeds themselves instead takes S below the line
    and the normal quantile z for t's, so that its interval is too narrow by sqrt(S / (S - 1)) t / z: 9.2 for one side
    with 2 seeds, 2.7 with 3, 1.6 with 5. Only the seeds' part has that factor: problems are many. The noise of single
    answers and what a seed does to single problems sits in both parts, so it is taken out of the problems' part (its
    draws shrink by sqrt(1 - W / U): U the variance of that part, W the sum over the sides of the residual mean square
    of seeds x problems over S P). A side with one seed has no seeds' part. The generator is private.
    """
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
    own = float(difference_P.var(ddof=1)) / problems if problems > 1 else 0.0
    if shared > 0 and own > 0:
        draws *= max(0.0, 1 - shared / own) ** 0.5
    if variance > 0:
        freedom = variance**2 / sum(v**2 / f for v, f in zip(spreads, freedoms, strict=True))
        shares = (np.random.default_rng([seed, 1]).permutation(resamples) + 0.5) / resamples
        draws += variance**0.5 * t_quantile(shares, freedom)
    return draws + center


def _residual_variance(values_SP: np.ndarray) -> float:
    """Mean square of what the means of seeds and of problems leave, (S - 1)(P - 1) degrees of freedom."""
    seeds, problems = values_SP.shape
    rest = values_SP - values_SP.mean(0) - values_SP.mean(1, keepdims=True) + values_SP.mean()
    return float((rest**2).sum()) / max((seeds - 1) * (problems - 1), 1)


def _seeds(rows: Sequence[Sequence[int]] | np.ndarray) -> list[Sequence[int]]:
    found = list(rows)
    if not found or np.ndim(found[0]) != 1 or len({len(row) for row in found}) != 1:
        raise DataError("Counts must be one list per training seed, all over the same problems.")
    return found
