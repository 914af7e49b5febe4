"""The clamped sequence-level importance weight of seed 001, section 3.1."""

from __future__ import annotations

import torch


def sequence_weight(
    logps_BT: torch.Tensor, behavior_BT: torch.Tensor, mask_BT: torch.Tensor, low: float, high: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """w = clamp(exp(sum over tokens of (log pi - log mu)), low, high), without gradient.

    pi are the current weights, mu is the policy that sampled. Returns (w_B, raw_B): the clamped and the raw weight.
    Both are exactly 1 when the samples are on-policy and come from the training engine itself.
    """
    log_ratio_B = ((logps_BT.detach() - behavior_BT) * mask_BT).sum(1)
    raw_B = torch.exp(log_ratio_B.clamp(-30.0, 30.0))  # e^30 is far outside any clamp and still finite in float32
    return raw_B.clamp(low, high), raw_B
