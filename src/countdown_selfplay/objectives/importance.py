"""The clamped sequence-level importance weight of Allen and Ståblein, section 3.1."""

from __future__ import annotations

import torch

from .base import of_completion


def sequence_weight(
    logps_BT: torch.Tensor,
    behavior_BT: torch.Tensor,
    mask_BT: torch.Tensor,
    low: float,
    high: float,
    sequence_B: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """w = clamp(exp(sum over tokens of (log pi - log mu)), low, high), without gradient.

    pi are the current weights, mu is the policy that sampled. Returns (w_B, raw_B): the clamped and the raw weight.
    Both are exactly 1 when the samples are on-policy and come from the training engine itself. sequence_B: rows with
    the same number are one completion (the moves of an episode), whose weight is that of all its tokens.
    """
    log_ratio_B = of_completion(((logps_BT.detach() - behavior_BT) * mask_BT).sum(1), sequence_B)
    raw_B = torch.exp(log_ratio_B.clamp(-30.0, 30.0))  # e^30 is far outside any clamp and still finite in float32
    return raw_B.clamp(low, high), raw_B


def truncated_weight(
    logps_BT: torch.Tensor,
    sampled_BT: torch.Tensor,
    mask_BT: torch.Tensor,
    mode: str,
    low: float | None,
    high: float | None,
    sequence_B: torch.Tensor | None = None,
) -> torch.Tensor:
    """Truncated importance weight of a sampler that is not the trained model, without gradient: what TRL's GRPO loss
    is multiplied by under `vllm_importance_sampling_correction`.

    w = pi / mu, pi the trained weights and mu the sampler, per token (modes `token_*`, (B, T)) or as the product over
    the completion (`sequence_*`, (B, 1)), all moves of an episode being one. `*_truncate` clamps w to [low, high];
    `*_mask` sets it to 0 outside. None: no bound. A token that the sampler could not score (NaN) has ratio 1. Yao et
    al. 2025, "Your efficient RL framework secretly brings you off-policy RL training"; the masks: Liu et al. 2025,
    "When speed kills stability".
    """
    gap_BT = torch.nan_to_num((logps_BT.detach() - sampled_BT) * mask_BT, nan=0.0)
    gap = of_completion(gap_BT.sum(1), sequence_B)[:, None] if mode.startswith("sequence") else gap_BT
    weight = torch.exp(gap.clamp(-30.0, 30.0))
    if mode.endswith("truncate"):
        return weight if low is None and high is None else weight.clamp(min=low, max=high)
    outside = (weight < (-torch.inf if low is None else low)) | (weight > (torch.inf if high is None else high))
    return weight.masked_fill(outside, 0.0)
