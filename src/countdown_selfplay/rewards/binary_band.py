"""Binary difficulty band of Allen and Ståblein, table 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import ConfigError
from ..registry import Share
from .base import RewardContext
from .composition import Composable


@dataclass(frozen=True)
class BinaryBand(Composable):
    """Reward 1 if low <= solve rate <= high, else 0. conservative_binary: [.05, .85], aggressive_binary [.05, .75]."""

    low: Share = 0.05
    high: Share = 0.85

    def __post_init__(self) -> None:
        if not 0.0 <= self.low <= self.high <= 1.0:
            raise ConfigError(f"binary_band needs 0 <= low <= high <= 1, got low={self.low} and high={self.high}.")

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext | None = None) -> np.ndarray:
        p = np.asarray(solve_rate_P, dtype=float)
        return ((p >= self.low) & (p <= self.high)).astype(float)
