"""Scheduled curriculum over rungs (E2H-Reasoning, arXiv 2506.06632), which depends on the round alone."""

import math
from collections.abc import Sequence
from typing import Literal

from ...contract.round import Round
from ...proposers.rungs import RungList, Rungs
from ...registry import Count, Share


class ScheduledRungs(Rungs):
    """Differs from Rungs in that a rung's weight is a function of t/T, the share of `rounds` that are over; for K
    rungs, the easiest i = 0, a (K - i) / S + (1 - a) (i + 1) / S with a = (1 + cos(pi t/T)) / 2, S = K (K + 1) / 2.
    After `rounds` rounds it stays. kind: of the paper's schedules only cosine."""

    def __init__(
        self, rounds: Count, kind: Literal["cosine"] = "cosine", rungs: RungList | None = None, share: Share = 1.0
    ) -> None:
        super().__init__(rungs, share)
        self.planned_rounds, self.kind = rounds, kind

    def weights(self, round: Round, rungs: Sequence[int]) -> Sequence[float]:
        K, over = len(rungs), min(round.index / self.planned_rounds, 1.0)
        a, S = (1 + math.cos(math.pi * over)) / 2, K * (K + 1) / 2
        return [max(a * (K - i) / S + (1 - a) * (i + 1) / S, 1 / S) for i in range(K)]
