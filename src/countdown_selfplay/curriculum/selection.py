"""Which generated problems enter training: the score of Task Difficulty and Diversity, section 3.3, and what is made
of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

import numpy as np
from annotated_types import Gt

from ..errors import ConfigError
from ..registry import Amount

Rule = Literal["top_k", "hard_band", "soft_penalty", "sampled"]


class Selected(NamedTuple):
    """chosen: (at most k) rows, the best first. verdicts: (N) "admitted" for all that might have been chosen, else
    "too_hard", "too_easy" or "low_diversity"."""

    chosen: np.ndarray
    verdicts: list[str]


@dataclass(frozen=True)
class Selection:
    """R_gen = R_diff + diversity x R_div of a candidate with estimated solve rate p. R_diff is minus the distance of p
    to [low, high]; R_div, in [0, 1], the distance to the archive.

    top_k: the k candidates of highest R_gen, none refused (the paper's UCB).
    hard_band: candidates outside the band, and of the others those with R_div < least_diversity, are refused first
        (the paper's gate).
    soft_penalty: nothing is refused; leaving the band costs `penalty` times as much as in R_gen, and R_div below
        least_diversity `penalty` times what is missing (the paper's wish, section 6).
    sampled: k candidates drawn without replacement, with weights exp(R_gen / temperature).

    The paper gives no weight for R_div and no least diversity. Equal scores: the earlier candidate.
    """

    rule: Rule = "top_k"
    low: Amount = 0.2
    high: Amount = 0.6
    diversity: Amount = 0.5
    least_diversity: Amount = 0.01
    penalty: Amount = 3.0
    temperature: Annotated[float, Gt(0)] = 0.1

    def __post_init__(self) -> None:
        if not self.low <= self.high <= 1:
            raise ConfigError(
                f"`low` ({self.low}) and `high` ({self.high}) must be an ascending band of solve rates within [0, 1]; "
                "Task Difficulty and Diversity uses 0.2 and 0.6."
            )

    @property
    def bounds(self) -> tuple[float, float]:
        """Least and greatest R_gen."""
        return -max(self.low, 1 - self.high), self.diversity

    def outside(self, p_N: np.ndarray) -> np.ndarray:
        """(N,) distances of solve rates to the band."""
        return np.maximum(np.maximum(self.low - p_N, p_N - self.high), 0.0)

    def reward(self, p_N: np.ndarray, diversity_N: np.ndarray) -> np.ndarray:
        """(N,) R_gen."""
        return self.diversity * diversity_N - self.outside(p_N)

    def select(self, p_N: np.ndarray, diversity_N: np.ndarray, count: int, seed: int) -> Selected:
        """At most `count` candidates by the rule. seed: of the draw of `sampled`."""
        score_N = self.reward(p_N, diversity_N)
        verdicts = np.full(len(p_N), "admitted", dtype=object)
        if self.rule == "hard_band":
            verdicts[diversity_N < self.least_diversity] = "low_diversity"
            verdicts[p_N < self.low] = "too_hard"
            verdicts[p_N > self.high] = "too_easy"
        elif self.rule == "soft_penalty":
            missing_N = np.maximum(self.least_diversity - diversity_N, 0.0)
            score_N = score_N - (self.penalty - 1) * self.outside(p_N) - self.penalty * missing_N
        elif self.rule == "sampled":  # the k greatest of scores with Gumbel noise are such a draw
            noise_N = np.random.default_rng(seed).gumbel(size=len(score_N))
            score_N = score_N / self.temperature + noise_N
        open_N = np.flatnonzero(verdicts == "admitted")
        best = open_N[np.argsort(-score_N[open_N], kind="stable")][:count]
        return Selected(best, verdicts.tolist())
