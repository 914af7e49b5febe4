"""GRPO (Shao et al. 2024, DeepSeekMath, section 4.1), and Dr. GRPO (Liu et al. 2025)."""

import torch

from ..registry import Amount, Share
from .base import BaseObjective, LossInputs, LossOutput, Normalization, normalise, spread

STD_EPS = 1e-4
"""Constant added to a group's standard deviation, as in TRL; the authors of GRPO add none."""


def group_advantages(rewards_PG: torch.Tensor, scale: bool) -> torch.Tensor:
    """Return (r - mean) / (std + 1e-4) over the samples of a group with a reward, (P, G); without `scale`, r - mean.
    std is the sample standard deviation (n - 1), as in TRL. 0 for samples without a reward (NaN), for groups of equal
    rewards, and for groups with fewer than two rewards."""
    known_PG = ~torch.isnan(rewards_PG)
    value_PG = torch.nan_to_num(rewards_PG, nan=0.0)
    count_P1 = known_PG.sum(1, keepdim=True)
    centred_PG = (value_PG - value_PG.sum(1, keepdim=True) / count_P1.clamp(min=1)) * known_PG
    if scale:
        std_P1 = (centred_PG.square().sum(1, keepdim=True) / (count_P1 - 1).clamp(min=1)).sqrt()
        centred_PG = centred_PG / (std_P1 + STD_EPS)
    return torch.where(known_PG & spread(rewards_PG), centred_PG, torch.zeros_like(value_PG))


class GRPO(BaseObjective):
    """GRPO: A_i = (r_i - mean) / std of the group; loss = -(1/N) sum_i (1/|y_i|) sum_t min(w_it A_i, clip(w_it) A_i).

    w_it = pi(y_it) / mu(y_it) per token with gradient, mu the sampling policy, clipped to [1 - epsilon_low, 1 +
    epsilon_high] = [0.8, 1.2]. Equal to TRL's `loss_type="grpo"`. In a round's first step w_it is 1; the clip acts
    from the second on (`steps_per_round`). Samples of another engine are weighted as in TRL
    (objectives.base.truncated_weight), and mu is then the trained model before the step. Degenerate: see
    group_advantages; a completion without tokens adds 0."""

    normalization: Normalization = "sequence_mean"
    needs_samples = 2  # r - mean is 0 for one sample
    sampler_correction = "truncated"
    overlong_replaces = "reward"
    scale = True

    def __init__(self, epsilon_low: Share = 0.2, epsilon_high: Amount = 0.2) -> None:
        self.epsilon_low, self.epsilon_high = epsilon_low, epsilon_high

    def advantages(self, rewards_PG: torch.Tensor, correct_PG: torch.Tensor | None = None) -> torch.Tensor:
        return group_advantages(rewards_PG, self.scale)

    def loss(self, inputs: LossInputs) -> LossOutput:
        ratio_BT = torch.exp((inputs.logps_BT - inputs.behavior_BT).clamp(-30.0, 30.0))
        clipped_BT = ratio_BT.clamp(1 - self.epsilon_low, 1 + self.epsilon_high)
        advantages_B1 = inputs.advantages_B[:, None]
        gain_BT = torch.minimum(ratio_BT * advantages_B1, clipped_BT * advantages_B1)
        if inputs.correction is not None:
            gain_BT = gain_BT * inputs.correction
        with torch.no_grad():
            low_BT = (ratio_BT < 1 - self.epsilon_low) & (advantages_B1 < 0)
            high_BT = (ratio_BT > 1 + self.epsilon_high) & (advantages_B1 > 0)
            clipped = ((low_BT | high_BT) * inputs.mask_BT).sum() * inputs.sequences / (inputs.tokens or 1.0)
        return LossOutput(normalise(-gain_BT, inputs, self.normalization), {"clipped_rate": clipped})


class DrGRPO(GRPO):
    """Variant of GRPO that does not divide by the group's standard deviation, and divides a completion's token sum by
    the length limit in place of its length: the divisions of GRPO favour some problems and lengths over others. Equal
    to TRL's `loss_type="dr_grpo"` with `scale_rewards=False`."""

    normalization = "length_cap"
    scale = False
