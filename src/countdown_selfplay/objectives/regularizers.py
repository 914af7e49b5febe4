"""KL to the reference and entropy bonus: terms that any objective can carry."""

from __future__ import annotations

import torch

from .base import LossInputs


def kl_k3(logps_BT: torch.Tensor, ref_BT: torch.Tensor) -> torch.Tensor:
    """Schulman's k3 estimate of KL(pi || ref) per token, in nats: exp(d) - d - 1 with d = log ref - log pi; never
    negative."""
    d_BT = ref_BT - logps_BT
    return torch.exp(d_BT) - d_BT - 1


def kl_loss(kl_BT: torch.Tensor, inputs: LossInputs, normalization: str) -> torch.Tensor:
    """The KL term before its coefficient, normalised as the objective's policy term is (see
    Objective.normalization)."""
    total = (kl_BT * inputs.mask_BT).sum()
    return total / (inputs.sequences if normalization == "sequence" else inputs.tokens)


def entropy_bonus(entropy_BT: torch.Tensor, inputs: LossInputs) -> torch.Tensor:
    """Mean entropy per token over the role's round, in nats, as in TRL (independent of how the policy term is
    normalised)."""
    return (entropy_BT * inputs.mask_BT).sum() / max(inputs.tokens, 1.0)
