"""Uncertainty minus repetition: R-Zero (Huang et al. 2025, arXiv 2508.05004, section 3), which SGS cites."""

from dataclasses import dataclass

import numpy as np

from ...countdown.features import similar_share
from ...registry import Amount, Share
from ...rewards.base import UNKNOWN, RewardContext, problems_of
from ...rewards.composition import Composable


@dataclass(frozen=True)
class RZero(Composable):
    """r = max(floor, scale * min(p, 1 - p) - weight * share).

    Paper: 1 - 2 |p - 1/2| (scale 2), minus |C| / B for a problem in a cluster C of B proposals, not below 0. The
    authors' code uses scale 1 and no floor: `scale=1.0, floor=None`. share: of the other problems of the round, those
    that overlap with this one by at least `threshold` (`similarity.overlap`). Two departures for small rounds of small
    problems: the paper clusters texts by BLEU distance (threshold 0.5), while overlap of numbers and target is exact
    and independent of order; and the paper counts the problem itself, which would penalise a single problem by the
    full weight. Without problems in `ctx` the share is 0. In the paper p is the agreement with a majority vote; here
    the verifier's correctness."""

    scale: Amount = 2.0
    weight: Amount = 1.0
    threshold: Share = 0.5
    floor: float | None = 0.0

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext | None = None) -> np.ndarray:
        p = np.asarray(solve_rate_P, dtype=float)
        reward_P = self.scale * np.minimum(p, 1.0 - p)
        problems = problems_of("r_zero", p, UNKNOWN if ctx is None else ctx)
        if problems:
            reward_P = reward_P - self.weight * similar_share(problems, self.threshold)
        return reward_P if self.floor is None else np.maximum(self.floor, reward_P)
