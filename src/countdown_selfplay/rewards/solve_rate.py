"""Rewards of the solve rate alone: tent, band, and variance of an answer."""

from dataclasses import dataclass

import numpy as np

from ..errors import ConfigError
from ..registry import Amount, Share
from .base import RewardContext
from .composition import Composable


@dataclass(frozen=True)
class Tent(Composable):
    """Tent reward of solve rate p: r = max(0, 1 - slope * |p - peak|), by default 0 at p = 0 and for p >= 0.8 (Allen
    and Ståblein, section 3.2)."""

    peak: Share = 0.4
    slope: Amount = 2.5

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext | None = None) -> np.ndarray:
        return np.maximum(0.0, 1.0 - self.slope * np.abs(np.asarray(solve_rate_P, dtype=float) - self.peak))


@dataclass(frozen=True)
class BinaryBand(Composable):
    """Reward 1 if low <= solve rate <= high, else 0. Allen and Ståblein, table 1: conservative_binary [.05, .85],
    aggressive_binary [.05, .75]."""

    low: Share = 0.05
    high: Share = 0.85

    def __post_init__(self) -> None:
        if not 0.0 <= self.low <= self.high <= 1.0:
            raise ConfigError(f"binary_band needs 0 <= low <= high <= 1, got low={self.low} and high={self.high}.")

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext | None = None) -> np.ndarray:
        p = np.asarray(solve_rate_P, dtype=float)
        return ((p >= self.low) & (p <= self.high)).astype(float)


@dataclass(frozen=True)
class Learnability(Composable):
    """Learnability of solve rate p: r = 4 p (1 - p), proportional to the variance of a Bernoulli(p) answer."""

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext | None = None) -> np.ndarray:
        p = np.asarray(solve_rate_P, dtype=float)
        return 4.0 * p * (1.0 - p)
