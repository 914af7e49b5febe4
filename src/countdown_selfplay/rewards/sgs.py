"""Conjecturer reward of self-guided self-play: SGS 2026, section 3, appendices E.3 and G.5."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..errors import RewardError
from ..registry import Share
from .base import UNKNOWN, RewardContext
from .composition import Composable


@dataclass(frozen=True)
class SGS(Composable):
    """Conjecturer reward of SGS: R_solve * R_guide, min-max normalised to [0, 1] over the round's problems, and 1 if
    all are equal. p is a problem's solve rate.

    R_solve is 0 if p = 0, if p = 1, or if p is in the top 30% (`top_share`), else 1 - p. Problems with equal p are
    treated alike. R_guide is the guide's score (`ctx.guide_P`, at least 0), or 1 without a guide (the ablation "no
    guide" of SGS). A failed review, NaN, counts as the mean of the other scores; if every review failed, the guide is
    ignored. The mean replaces the score before the product: an unsolved problem has reward 0.

    top_of: population of the top share. "batch", as in the text: all problems of the round; p is in the top if at most
    30% have p or more. "between", as in the authors' program: the n rates with 0 < p < 1; p is in the top if it
    exceeds the rate at index int(.7 n) in ascending order.

    starved: rule if R_solve is 0 for every problem. "paper": all rewards are 0, and the conjecturer learns nothing
    (section 4.5, figure 7). "never": the top 30% are admitted again; if no p is strictly between 0 and 1, R_solve = p,
    which prefers solvable problems; and if all p are equal, R_solve = 1, so that the guide alone decides."""

    top_share: Share = 0.3
    top_of: Literal["batch", "between"] = "batch"
    starved: Literal["paper", "never"] = "never"

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext | None = None) -> np.ndarray:
        product_P = self.parts(solve_rate_P, ctx)["r_synth"]
        if self.starved == "paper" and not product_P.any():
            return np.zeros(product_P.shape)
        if not product_P.size or product_P.min() == product_P.max():
            return np.ones(product_P.shape)
        return (product_P - product_P.min()) / (product_P.max() - product_P.min())

    def parts(self, solve_rate_P: np.ndarray, ctx: RewardContext | None = None) -> dict[str, np.ndarray]:
        """Return r_solve, r_guide and their product r_synth before normalisation, each (P,). Without a guide, or if
        every review failed, r_guide is absent and r_synth is r_solve."""
        p = np.asarray(solve_rate_P, dtype=float)
        solve_P = self.solve_reward(p)
        guide_P = (UNKNOWN if ctx is None else ctx).guide_P
        if guide_P is None:
            return {"r_solve": solve_P, "r_synth": solve_P}
        guide_P = np.asarray(guide_P, dtype=float)
        if guide_P.shape != p.shape:
            raise RewardError(f"Conjecturer reward 'sgs' got {guide_P.size} guide scores for {p.size} solve rates.")
        reviewed_P = np.isfinite(guide_P)
        if not reviewed_P.any():
            return {"r_solve": solve_P, "r_synth": solve_P}
        score_P = np.where(reviewed_P, np.maximum(np.nan_to_num(guide_P), 0.0), 0.0)
        score_P[~reviewed_P] = score_P[reviewed_P].mean()
        return {"r_solve": solve_P, "r_guide": score_P, "r_synth": solve_P * score_P}

    def solve_reward(self, solve_rate_P: np.ndarray) -> np.ndarray:
        """Return R_solve, (P,), or its replacement under `starved="never"` if R_solve is 0 for all problems."""
        p = solve_rate_P
        hard_P = np.where(p > 0, 1.0 - p, 0.0)
        without_top_P = np.where(self._top(p), 0.0, hard_P)
        if without_top_P.any() or self.starved == "paper":
            return without_top_P
        if hard_P.any():
            return hard_P
        return p.copy() if p.size and p.min() < p.max() else np.ones(p.shape)

    def _top(self, p: np.ndarray) -> np.ndarray:
        """Return whether each problem is too easy, that is, in the top share, (P,) bools."""
        if self.top_of == "between":
            inside = np.sort(p[(p > 0) & (p < 1)])
            last = min(int(inside.size * (1 - self.top_share)), inside.size - 1)
            return p > (inside[last] if inside.size else 0.0)
        as_high_P = (p[:, None] <= p[None, :]).mean(1) if p.size else np.zeros(0)  # share with this p or a higher one
        return as_high_P <= self.top_share + 1e-12
