"""Inputs of losses, and a policy over three answers whose expectations can be listed."""

import torch

from countdown_selfplay.objectives.base import LossInputs


def loss_inputs(logps, advantages, mask=None, behavior=None, group=1, length_cap=8):
    """The whole round in one micro-batch, double precision; all rows with a trained token are selected."""
    logps = torch.as_tensor(logps, dtype=torch.float64)
    mask = torch.ones_like(logps) if mask is None else torch.as_tensor(mask, dtype=torch.float64)
    behavior = logps.detach() if behavior is None else torch.as_tensor(behavior, dtype=torch.float64)
    tokens = mask.sum(1)
    return LossInputs(
        logps, behavior, torch.as_tensor(advantages, dtype=torch.float64), mask, sequences=float((tokens > 0).sum()),
        tokens=float(tokens.sum()), groups=float(len(logps) // group), length_cap=length_cap,
        group_tokens_B=tokens.reshape(-1, group).sum(1).repeat_interleave(group),
    )  # fmt: skip
