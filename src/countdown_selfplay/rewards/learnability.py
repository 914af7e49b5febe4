"""Learnability: the variance of a correct/incorrect answer of the prover, scaled to [0, 1]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .base import RewardContext
from .composition import Composable


@dataclass(frozen=True)
class Learnability(Composable):
    """Learnability of solve rate p: r = 4 p (1 - p), proportional to the variance of a Bernoulli(p) answer."""

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext | None = None) -> np.ndarray:
        p = np.asarray(solve_rate_P, dtype=float)
        return 4.0 * p * (1.0 - p)
