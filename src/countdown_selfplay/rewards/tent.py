"""Tent reward of Allen and Ståblein, section 3.2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..registry import Amount, Share
from .base import RewardContext
from .composition import Composable


@dataclass(frozen=True)
class Tent(Composable):
    """Tent reward of solve rate p: r = max(0, 1 - slope * |p - peak|), by default 0 at p = 0 and for p >= 0.8."""

    peak: Share = 0.4
    slope: Amount = 2.5

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext | None = None) -> np.ndarray:
        return np.maximum(0.0, 1.0 - self.slope * np.abs(np.asarray(solve_rate_P, dtype=float) - self.peak))
