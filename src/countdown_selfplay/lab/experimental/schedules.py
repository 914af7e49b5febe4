"""Scheduled curricula over rungs (E2H-Reasoning, arXiv 2506.06632), which depend on the round alone."""

import math
from collections.abc import Sequence
from typing import Literal

from ...contract.round import Round
from ...proposers.rungs import RungList, Rungs
from ...registry import Amount, Count, Share


class ScheduledRungs(Rungs):
    """Differs from Rungs in that a rung's weight is a function of t/T, the share of `rounds` that are over; for K
    rungs, the easiest i = 0:

    classic: rung floor(K t/T) alone. cosine: with a = (1 + cos(pi t/T)) / 2 and S = K (K + 1) / 2,
    a (K - i) / S + (1 - a) (i + 1) / S, at least 2 / (K (K + 1)). gaussian: exp(-(i - m)^2 / (2 sigma^2)) with
    m = (t/T)^beta (K - 1), normalised, mixed with a floor `least` for each rung. After `rounds` rounds it stays."""

    def __init__(
        self,
        rounds: Count,
        kind: Literal["classic", "cosine", "gaussian"] = "cosine",
        beta: Amount = 0.5,
        sigma: Amount = 0.5,
        least: Share = 0.0,
        rungs: RungList | None = None,
        share: Share = 1.0,
    ) -> None:
        super().__init__(rungs, share)
        self.planned_rounds, self.kind, self.beta, self.sigma, self.least = rounds, kind, beta, sigma, least

    def weights(self, round: Round, rungs: Sequence[int]) -> Sequence[float]:
        K, over = len(rungs), min(round.index / self.planned_rounds, 1.0)
        if self.kind == "classic":
            return [float(i == min(int(over * K), K - 1)) for i in range(K)]
        if self.kind == "cosine":
            a, S = (1 + math.cos(math.pi * over)) / 2, K * (K + 1) / 2
            return [max(a * (K - i) / S + (1 - a) * (i + 1) / S, 1 / S) for i in range(K)]
        middle = over**self.beta * (K - 1)
        bell = [math.exp(-((i - middle) ** 2) / (2 * self.sigma**2)) for i in range(K)]
        return [self.least + (1 - K * self.least) * one / sum(bell) for one in bell]
