"""The conjecturer's reward of self-guided self-play: seed 003, section 3, appendices E.3 and G.5."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import RewardError
from .base import UNKNOWN, RewardContext, check_number
from .composition import Composable


@dataclass(frozen=True)
class SGS(Composable):
    """r = R_solve * R_guide, min-max normalised to [0, 1] over the problems of the round; all equal: 1.

    R_solve = 0 if p = 0, or if p is in the top 30% of the round (`top_share`), else 1 - p. Problems with the same p
    are treated alike: they are in the top 30% if no more than 30% of the round's problems have that p or a higher
    one.

    R_guide: the guide's score (`ctx.guide_P`, negative ones count as 0), 1 without a guide (the paper's ablation "no
    guide"). A failed review, NaN, earns the mean of the problems that were reviewed; if every review failed, the
    guide is left out.

    Never starve: the rules above can leave R_solve at 0 for every problem, which the published code answers with no
    data for the conjecturer. Here, if that happens, the top 30% are let in again; if no p lies strictly between 0 and
    1 even so, R_solve = p, which prefers what can be solved at all; and if all p are equal, R_solve = 1, so that the
    guide decides alone and a valid problem earns more than an invalid one.
    """

    top_share: float = 0.3

    def __post_init__(self) -> None:
        check_number("sgs", "top_share", self.top_share, 0.0, 1.0)

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext | None = None) -> np.ndarray:
        p = np.asarray(solve_rate_P, dtype=float)
        solve_P = self.solve_reward(p)
        guide_P = (UNKNOWN if ctx is None else ctx).guide_P
        if guide_P is None:
            return _normalised(solve_P)
        guide_P = np.asarray(guide_P, dtype=float)
        if guide_P.shape != p.shape:
            raise RewardError(f"Conjecturer reward 'sgs' got {guide_P.size} guide scores for {p.size} solve rates.")
        reviewed_P = np.isfinite(guide_P)
        if not reviewed_P.any():
            return _normalised(solve_P)
        reward_P = np.empty(p.shape)
        reward_P[reviewed_P] = _normalised(solve_P[reviewed_P] * np.maximum(guide_P[reviewed_P], 0.0))
        reward_P[~reviewed_P] = reward_P[reviewed_P].mean()
        return reward_P

    def solve_reward(self, solve_rate_P: np.ndarray) -> np.ndarray:
        """(P,) R_solve, with the rule against starvation."""
        p = solve_rate_P
        as_high_P = (p[:, None] <= p[None, :]).mean(1) if p.size else np.zeros(0)  # share with that p or a higher one
        top_P = as_high_P <= self.top_share + 1e-12
        hard_P = np.where(p > 0, 1.0 - p, 0.0)
        for reward_P in (np.where(top_P, 0.0, hard_P), hard_P):
            if reward_P.any():
                return reward_P
        return p.copy() if p.size and p.min() < p.max() else np.ones(p.shape)


def _normalised(reward_P: np.ndarray) -> np.ndarray:
    if not reward_P.size or reward_P.min() == reward_P.max():
        return np.ones(reward_P.shape)
    return (reward_P - reward_P.min()) / (reward_P.max() - reward_P.min())
