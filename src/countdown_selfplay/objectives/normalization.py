"""From per-token values to a loss: the five means that the literature uses."""

from __future__ import annotations

import torch

from .base import LossInputs, Normalization


def normalise(values_BT: torch.Tensor, inputs: LossInputs, how: Normalization) -> torch.Tensor:
    """This micro-batch's share of the round's mean of `values_BT` over the tokens that are trained on.

    sequence: sum over a completion's tokens, mean over completions (RLOO, REINFORCE).
    sequence_mean: mean over a completion's tokens, mean over completions (GRPO; SGS, G.1).
    token: mean over all tokens of the round (DAPO; a language-modelling loss).
    group: mean over all tokens of a group, mean over groups (CISPO; SGS, G.3).
    length_cap: sum over a completion's tokens / the most tokens it may have, mean over completions (Dr. GRPO).
    A completion without a trained token adds 0; so does an empty selection. The moves of an episode are one
    completion.
    """
    masked_BT = values_BT * inputs.mask_BT
    if how == "token":
        return masked_BT.sum() / (inputs.tokens or 1.0)
    if how == "sequence":
        return masked_BT.sum() / (inputs.sequences or 1.0)
    if how == "length_cap":
        return masked_BT.sum() / ((inputs.sequences or 1.0) * inputs.length_cap)
    if how == "sequence_mean":
        lengths_B = inputs.of_completion(inputs.mask_BT.sum(1))
        return (masked_BT.sum(1) / lengths_B.clamp(min=1.0)).sum() / (inputs.sequences or 1.0)
    if inputs.group_tokens_B is None:
        raise ValueError("normalization 'group' needs LossInputs.group_tokens_B.")
    return (masked_BT.sum(1) / inputs.group_tokens_B.clamp(min=1.0)).sum() / (inputs.groups or 1.0)
