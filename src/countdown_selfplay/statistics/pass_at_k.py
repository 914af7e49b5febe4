"""pass@k without bias: the chance that at least one of k answers, drawn from n without replacement, is correct."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..errors import ConfigError, DataError


def pass_at_k(n: int, c: int, k: int) -> float:
    """1 - C(n-c, k) / C(n, k) for n answers of which c are correct (Chen et al. 2021, eq. 1), correctly rounded.

    DataError unless 0 <= c <= n; ConfigError unless 1 <= k <= n.
    """
    _check_k(n, k)
    if not 0 <= c <= n:
        raise DataError(f"{c} correct answers out of {n} are not possible; counts must lie between 0 and n = {n}.")
    total = math.comb(n, k)
    return (total - math.comb(n - c, k)) / total


def pass_at_k_array(counts: Sequence[int] | np.ndarray, n: int, k: int) -> np.ndarray:
    """`pass_at_k` of every problem, shape (problems,), float64. `counts`: correct answers per problem, each out of
    `n`."""
    counts_P = count_array(counts, n)
    _check_k(n, k)
    return np.array([pass_at_k(n, c, k) for c in range(n + 1)])[counts_P]


def count_array(counts: Sequence[int] | np.ndarray, n: int) -> np.ndarray:
    """Correct answers per problem as an int64 array, shape (problems,). DataError unless there is at least one and
    all are whole numbers in [0, n]."""
    array = np.asarray(counts)
    if array.ndim != 1 or array.size == 0:
        raise DataError(
            f"Counts of correct answers must be a list with one number per problem, got the shape {array.shape}."
        )
    if array.dtype.kind not in "iu":
        raise DataError(f"Counts of correct answers must be whole numbers, got {array.dtype} values.")
    outside = np.flatnonzero((array < 0) | (array > n))
    if outside.size:
        i = int(outside[0])
        raise DataError(f"Problem {i} has {array[i]} correct answers out of n = {n}; counts must lie in [0, n].")
    return array.astype(np.int64)


def _check_k(n: int, k: int) -> None:
    if not 1 <= k <= n:
        raise ConfigError(f"`k` ({k}) must lie between 1 and the number of answers per problem, n = {n}.")
