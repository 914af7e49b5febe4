"""Plain REINFORCE: the advantage is the reward (Williams 1992)."""

import torch

from .rloo import RLOO


class Reinforce(RLOO):
    """Variant of RLOO without a baseline: A_i = r_i, and 0 for a sample without a reward. A group of equal rewards
    still changes the policy: positive rewards make its samples likelier."""

    needs_samples = 1  # A = r

    def advantages(self, rewards_PG: torch.Tensor, correct_PG: torch.Tensor | None = None) -> torch.Tensor:
        return torch.nan_to_num(rewards_PG, nan=0.0)
