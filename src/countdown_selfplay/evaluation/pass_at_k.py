"""The unbiased estimate of pass@k (Chen et al. 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np

from ..errors import ConfigError


def pass_at_k(n: int, c: int, k: int) -> float:
    """1 - C(n-c, k) / C(n, k): the chance that at least one of k samples drawn from n, c of them correct, is correct.

    ConfigError unless 0 <= c <= n and 1 <= k <= n. (16, 3, 4) is 17/28.
    """
    if not 0 <= c <= n:
        raise ConfigError(f"pass@k needs 0 <= c <= n, got c={c} correct of n={n} samples.")
    if not 1 <= k <= n:
        raise ConfigError(f"pass@{k} cannot be estimated from n={n} samples; take k from 1 to {n}, or sample more.")
    return 1.0 - comb(n - c, k) / comb(n, k)


def pass_at_k_array(counts: Sequence[int] | np.ndarray, n: int, k: int) -> np.ndarray:
    """pass@k per problem. counts: (P,) correct samples of n; returns (P,) floats."""
    table = np.array([pass_at_k(n, c, k) for c in range(n + 1)])
    counts = np.asarray(counts, dtype=int)
    if counts.size and not (0 <= counts.min() and counts.max() <= n):
        raise ConfigError(f"pass@k needs counts from 0 to n={n}, got {counts.min()} to {counts.max()}.")
    return table[counts]
