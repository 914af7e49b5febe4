"""REINFORCE with a leave-one-out baseline (Ahmadian et al. 2024; Allen and Ståblein, section 3.1)."""

from typing import Annotated, Literal

import torch
from annotated_types import Ge, Gt, Le

from .base import BaseObjective, LossInputs, LossOutput, first_B, sequence_weight, spread

Low = Annotated[float, Gt(0), Le(1)]
High = Annotated[float, Ge(1)]
"""Bounds of a sequence's importance weight."""


class RLOO(BaseObjective):
    """RLOO: A_i = r_i - mean of the group's other rewards; loss = -(1/N) sum_i w_i A_i sum_t log pi(y_it).

    Rewards (P, G) are finite, of any scale; NaN marks a sample without a reward, whose advantage is 0 and which no
    baseline includes. w_i is the sequence-level importance weight clamped to [low, high] = [0.5, 2] (Allen and
    Ståblein), a constant in the gradient; on-policy it is 1 and the gradient equals that of TRL's RLOOTrainer. N
    counts completions of the role in the round.
    Degenerate: all rewards of a group equal, or fewer than two samples with a reward -> advantages 0.
    """

    normalization = "sequence"
    needs_samples = 2  # the baseline is the mean of the others
    overlong_replaces: Literal["reward", "credit"] = "reward"

    def __init__(self, low: Low = 0.5, high: High = 2.0) -> None:
        self.low, self.high = low, high

    def advantages(self, rewards_PG: torch.Tensor, correct_PG: torch.Tensor | None = None) -> torch.Tensor:
        known_PG = ~torch.isnan(rewards_PG)
        value_PG = torch.nan_to_num(rewards_PG, nan=0.0)
        count_P1 = known_PG.sum(1, keepdim=True)
        baseline_PG = (value_PG.sum(1, keepdim=True) - value_PG) / (count_P1 - 1).clamp(min=1)
        return torch.where(known_PG & spread(rewards_PG), value_PG - baseline_PG, torch.zeros_like(value_PG))

    def loss(self, inputs: LossInputs) -> LossOutput:
        scored = inputs.logps_BT, inputs.behavior_BT, inputs.mask_BT
        weight_B, raw_B = sequence_weight(*scored, self.low, self.high, inputs.sequence_B)
        logp_B = (inputs.logps_BT * inputs.mask_BT).sum(1)
        loss = -(weight_B * inputs.advantages_B * logp_B).sum() / (inputs.sequences or 1.0)
        trained_B = first_B(inputs.mask_BT, inputs.sequence_B)
        clamped = ((raw_B != weight_B) & trained_B).sum()
        return LossOutput(
            loss, {"importance_weight": (raw_B * trained_B).sum(), "importance_clamped": clamped.to(raw_B.dtype)}
        )
