"""CISPO (Chen et al. 2025, MiniMax-M1) as SGS uses it (appendix G.3)."""

import torch

from ..registry import Amount, Share
from .base import BaseObjective, LossInputs, LossOutput, normalise
from .grpo import group_advantages


class CISPO(BaseObjective):
    """CISPO: A_i = (v_i - mean) / std per group; loss = -E_x (1 / sum_i |y_i|) sum_i sum_t sg(w_it) A_i log pi(y_it).

    w_it = pi(y_it) / mu(y_it) per token, clipped to [1 - epsilon_low, 1 + epsilon_high] = [0, 4] (SGS: 1 and 3) and
    constant in the gradient, so that clipped tokens keep their gradient, unlike in PPO. The mean is over all tokens of
    the prompt's group, then over prompts; TRL's `loss_type="cispo"` takes the mean over all tokens of the batch and
    clips only from above. v is the verifier's correctness, so that a group without a right answer gives no signal,
    whatever its format reward; a role without a verifier (the conjecturer) uses its reward. Degenerate: see
    group_advantages; completions without tokens add 0."""

    normalization = "group"
    needs_samples = 2  # v - mean is 0 for one sample
    reads_rewards = False
    overlong_replaces = "reward"  # scale of v: penalties are part of mean and std (SGS 2026, section 4.1)

    def __init__(self, epsilon_low: Share = 1.0, epsilon_high: Amount = 3.0) -> None:
        self.low, self.high = 1.0 - epsilon_low, 1.0 + epsilon_high

    def advantages(self, rewards_PG: torch.Tensor, correct_PG: torch.Tensor | None = None) -> torch.Tensor:
        return group_advantages(rewards_PG if correct_PG is None else correct_PG, scale=True)

    def loss(self, inputs: LossInputs) -> LossOutput:
        raw_BT = torch.exp((inputs.logps_BT.detach() - inputs.behavior_BT).clamp(-30.0, 30.0))
        weight_BT = raw_BT.clamp(self.low, self.high)
        gain_BT = weight_BT * inputs.advantages_B[:, None] * inputs.logps_BT
        clamped = ((raw_BT != weight_BT) * inputs.mask_BT).sum() * inputs.sequences / (inputs.tokens or 1.0)
        return LossOutput(normalise(-gain_BT, inputs, self.normalization), {"importance_clamped": clamped})
