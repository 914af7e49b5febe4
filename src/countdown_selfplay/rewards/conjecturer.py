"""What a conjecturer reward is: a pure function from solve rates to rewards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True)
class RewardContext:
    """What a reward may look at besides the solve rates. `attempts`: answers per problem; `round`: counted from 0."""

    attempts: int = 0
    round: int = 0


class ConjecturerReward(Protocol):
    """(P,) solve rates in [0, 1] of problems that were played -> (P,) finite rewards."""

    def __call__(self, solve_rate_P: np.ndarray, ctx: RewardContext) -> np.ndarray: ...
