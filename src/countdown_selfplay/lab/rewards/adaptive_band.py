"""Tent that follows the prover's solve rates (proposed in Allen and Ståblein, section 7)."""

from dataclasses import dataclass

import numpy as np

from ...errors import ConfigError
from ...registry import Share
from ...rewards.base import UNKNOWN, RewardContext, tent
from ...rewards.composition import Composable


@dataclass(frozen=True)
class AdaptiveBand(Composable):
    """Tent whose peak is between the goal and the prover's recent solve rates. Stateless: the rates are part of the
    curriculum's state, so that a resumed run is exact.

    peak = goal + follow * (recent - goal), clipped to [low, high], where recent is the exponential moving mean of
    `ctx.recent_rates` (mean solve rates of at most the last 64 rounds with conjectured problems), and the goal before
    the first. The tent is 1 at the peak and falls to 0 at a distance of `width`, or at p = 0 and p = 1 if those are
    nearer, so that unsolved and always solved problems have reward 0. The paper proposes an adaptive band and a
    difficulty target that the conjecturer can reach, without a formula. follow = 0 is a fixed tent; follow = 1 rewards
    the current difficulty. In between, the peak leads towards the goal: at a recent rate of 0.05, where the tent of
    Allen and Ståblein gives almost no reward, the default peak is 0.225.

    decay: of the moving mean, per round."""

    goal: Share = 0.4
    follow: Share = 0.5
    decay: Share = 0.9
    width: Share = 0.4
    low: Share = 0.1
    high: Share = 0.9

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ConfigError(f"adaptive_band needs low <= high, got low={self.low} and high={self.high}.")

    def peak(self, recent_rates: tuple[float, ...]) -> float:
        """Return the peak after these rounds, oldest first."""
        recent = recent_rates[0] if recent_rates else self.goal
        for rate in recent_rates[1:]:
            recent = self.decay * recent + (1.0 - self.decay) * rate
        return min(max(self.goal + self.follow * (recent - self.goal), self.low), self.high)

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext | None = None) -> np.ndarray:
        p = np.asarray(solve_rate_P, dtype=float)
        peak = self.peak((UNKNOWN if ctx is None else ctx).recent_rates)
        # A width of 0 is a spike at the peak: the least number keeps the division defined.
        left, right = (max(min(self.width, side), 1e-12) for side in (peak, 1.0 - peak))
        return np.where((p > 0) & (p < 1), tent(p, peak, left, right), 0.0)
