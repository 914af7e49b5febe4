"""Role-conditioned advantage estimation: a moving baseline per role (Liu et al. 2025, SPIRAL, section 3.3)."""

import math
from typing import Annotated, Any

import torch
from annotated_types import Ge, Lt

from .rloo import RLOO, High, Low


class RAE(RLOO):
    """Variant of RLOO with a baseline per role: A_i = r_i - b with b <- decay * b + (1 - decay) * mean reward
    of the round.

    b is equal on all processes and saved in checkpoints. It is updated after the round, so that it is independent of
    the samples (SPIRAL updates it first). The first round has b = 0, as in SPIRAL; then b is that round's mean, not
    (1 - decay) times it as in SPIRAL. A sample without a reward gets advantage 0.

    decay: in [0, 1); SPIRAL uses 0.95."""

    needs_samples = 1  # the baseline is that of earlier rounds

    def __init__(self, decay: Annotated[float, Ge(0), Lt(1)] = 0.95, low: Low = 0.5, high: High = 2.0) -> None:
        super().__init__(low, high)
        self.decay = decay
        self.baseline: float | None = None

    def advantages(self, rewards_PG: torch.Tensor, correct_PG: torch.Tensor | None = None) -> torch.Tensor:
        known_PG = ~torch.isnan(rewards_PG)
        baseline = 0.0 if self.baseline is None else self.baseline
        return torch.where(known_PG, rewards_PG - baseline, torch.zeros_like(rewards_PG))

    def observe(self, mean_reward: float | None) -> None:
        if mean_reward is None or math.isnan(mean_reward):
            return
        old = mean_reward if self.baseline is None else self.baseline
        self.baseline = self.decay * old + (1.0 - self.decay) * mean_reward

    def state_dict(self) -> dict[str, Any]:
        return {"baseline": self.baseline}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.baseline = state["baseline"]
