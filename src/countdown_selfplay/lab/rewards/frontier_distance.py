"""Distance to the centre of the frontier (proposed in Multimodal LLM Self-Play, section 6)."""

from dataclasses import dataclass

import numpy as np

from ...errors import ConfigError
from ...registry import Share
from ...rewards.base import RewardContext
from ...rewards.composition import Composable


@dataclass(frozen=True)
class FrontierDistance(Composable):
    """r = max(floor, 1 - |p - c| / h), c the centre and h half the width of the frontier [low, high].

    The frontier of the paper is [0.1, 0.7]: 1 at p = 0.4, 0 at its edges. The paper gives no formula; it proposes
    weights by the distance to the centre, because membership alone said little more than that the JSON was valid.

    floor: 0 (default): 0 outside the frontier. None: linear to -1/3 at p = 0 and -1 at p = 1, so that distance
    counts outside too; a problem that is too hard may then have less than a refused proposal, unless refusals
    are penalised (`solvability_aware`)."""

    low: Share = 0.1
    high: Share = 0.7
    floor: float | None = 0.0

    def __post_init__(self) -> None:
        if self.low >= self.high:
            raise ConfigError(
                f"frontier_distance needs low < high, got low={self.low} and high={self.high}; Multimodal LLM "
                f"Self-Play uses 0.1 and 0.7."
            )

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext | None = None) -> np.ndarray:
        centre, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        reward_P = 1.0 - np.abs(np.asarray(solve_rate_P, dtype=float) - centre) / half
        return reward_P if self.floor is None else np.maximum(self.floor, reward_P)
