"""Maximum-likelihood reinforcement learning (Tajwar et al. 2026, arXiv 2602.02710)."""

import torch

from .base import spread
from .rloo import RLOO, High, Low


class MaxRL(RLOO):
    """Variant of RLOO that maximises E[log p(correct)] instead of E[p(correct)].

    A_i = (v_i - s) / s, with correctness v and s the share of correct samples of the group. The estimated gradient is
    the mean of grad log pi(y_i) over the correct samples minus that over all samples, a control variate. In
    expectation with G samples it is the gradient of the sum over k < G of pass@k / k, which tends to log p: a problem
    solved once in G tries weighs as much as one solved half the time, while RLOO gives it little weight. Degenerate:
    all correct or none -> 0; a sample without a reward gets 0.

    shaped: use the reward r >= 0 in place of v, and its mean in place of s (the gradient of log E[r]), so
    that a group without a correct sample learns from partial scores. If False, a role without a verifier
    cannot use the objective."""

    overlong_replaces = "credit"  # a share of right answers cannot be below 0

    def __init__(self, shaped: bool = False, low: Low = 0.5, high: High = 2.0) -> None:
        super().__init__(low, high)
        self.shaped = shaped
        self.needs_correctness = not shaped
        self.reads_rewards = shaped

    def advantages(self, rewards_PG: torch.Tensor, correct_PG: torch.Tensor | None = None) -> torch.Tensor:
        if correct_PG is None and not self.shaped:
            raise ValueError("maxrl needs the verifier's bit, which only the prover has; use rloo, or shaped=True.")
        value_PG = rewards_PG if self.shaped or correct_PG is None else correct_PG
        known_PG = ~torch.isnan(value_PG)
        if (value_PG < 0).any():
            raise ValueError(
                f"maxrl with shaped=True needs rewards of at least 0, got {float(value_PG[value_PG < 0][0]):g}; leave "
                "out what is subtracted (length penalties, KL in the reward), or use rloo."
            )
        differs_P1 = spread(value_PG)
        value_PG = torch.nan_to_num(value_PG, nan=0.0)
        mean_P1 = value_PG.sum(1, keepdim=True) / known_PG.sum(1, keepdim=True).clamp(min=1)
        credit_PG = (value_PG - mean_P1) / mean_P1.clamp(min=1e-9)
        return torch.where(known_PG & differs_P1, credit_PG, torch.zeros_like(value_PG))
