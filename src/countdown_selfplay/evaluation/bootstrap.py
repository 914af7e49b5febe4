"""Percentile bootstrap over problems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import ConfigError
from .pass_at_k import pass_at_k_array

_CHUNK = 2_000_000  # indices drawn at once, to bound memory


@dataclass(frozen=True)
class Interval:
    """A difference b - a with the ends of its interval."""

    difference: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Estimate:
    """A mean with the ends of its interval."""

    value: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        return {"value": self.value, "low": self.low, "high": self.high}


def bootstrap_mean(
    values: Sequence[float] | np.ndarray, resamples: int = 10_000, seed: int = 0, level: float = 0.95
) -> Estimate:
    """Mean of (N,) values with a percentile interval from resampling them with replacement."""
    array = np.asarray(values, dtype=float)
    if not array.size:
        raise ConfigError("A bootstrap needs at least one value, got none.")
    low, high = _percentiles(_resampled_means(array, resamples, seed), level)
    return Estimate(float(array.mean()), low, high)


def paired_bootstrap(
    correct_a: Sequence[int],
    correct_b: Sequence[int],
    n: int,
    k: int = 1,
    resamples: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> Interval:
    """pass@k of b minus that of a on the same problems, with a percentile interval from resampling problems.

    correct_a, correct_b: (P,) correct samples of n for each problem, in the same order.
    """
    if len(correct_a) != len(correct_b) or not len(correct_a):
        raise ConfigError(
            f"A paired bootstrap needs the same problems on both sides, got {len(correct_a)} and {len(correct_b)} counts."
        )
    delta = pass_at_k_array(correct_b, n, k) - pass_at_k_array(correct_a, n, k)
    low, high = _percentiles(_resampled_means(delta, resamples, seed), level)
    return Interval(float(delta.mean()), low, high)


def _resampled_means(values: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = max(1, _CHUNK // values.size)
    parts = [
        values[rng.integers(values.size, size=(min(rows, resamples - done), values.size))].mean(1)
        for done in range(0, resamples, rows)
    ]
    return np.concatenate(parts)


def _percentiles(draws: np.ndarray, level: float) -> tuple[float, float]:
    tail = 50.0 * (1.0 - level)
    low, high = np.percentile(draws, [tail, 100.0 - tail])
    return float(low), float(high)
