"""Reward for difficulty and diversity (Task Difficulty and Diversity, section 3.3), soft and without refusals."""

from dataclasses import dataclass

import numpy as np

from ..countdown.features import archive_distance
from ..errors import ConfigError
from ..registry import Amount, Share
from .base import UNKNOWN, RewardContext, problems_of
from .composition import Composable


@dataclass(frozen=True)
class DifficultyDiversity(Composable):
    """Difficulty and diversity reward: r = R_diff + lambda * R_div, in [-max(low, 1 - high), lambda].

    R_diff: minus the distance of the solve rate p to the band [low, high] (authors: [0.2, 0.6]), 0 inside. R_div:
    smallest distance to the archive (`features.archive_distance`: 13 features, scaled to [0, 1]), which holds earlier
    conjectured problems; 1 if it is empty, 0 for a problem in it. lambda: `diversity`, which the authors do not give;
    with 0.5 the range of novelty weighs slightly more than the distance from p = 1 to the band. The authors also
    refuse tasks outside the band or close to the archive, and conclude that difficulty should rank and not reject;
    here both only reduce the reward. Without problems in `ctx`, r = R_diff."""

    low: Share = 0.2
    high: Share = 0.6
    diversity: Amount = 0.5

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ConfigError(f"difficulty_diversity needs low <= high, got low={self.low} and high={self.high}.")

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext | None = None) -> np.ndarray:
        p = np.asarray(solve_rate_P, dtype=float)
        ctx = UNKNOWN if ctx is None else ctx
        difficulty_P = -np.maximum(np.maximum(self.low - p, p - self.high), 0.0)
        problems = problems_of("difficulty_diversity", p, ctx)
        if not problems or not self.diversity:
            return difficulty_P
        return difficulty_P + self.diversity * archive_distance(problems, ctx.archive, ctx.spec, ctx.rules)
