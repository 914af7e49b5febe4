"""What a group of rewards says before any objective looks at it."""

from __future__ import annotations

import torch


def spread(rewards_PG: torch.Tensor) -> torch.Tensor:
    """(P, 1) bools: whether two samples of the group have different rewards; absent ones (NaN) do not count.

    A group of equal rewards carries no signal. Its mean is off by rounding (eight times 0.1 in float32), so a
    difference to the mean would say otherwise, and a division would blow it up.
    """
    known_PG = ~torch.isnan(rewards_PG)
    low_P1 = torch.where(known_PG, rewards_PG, torch.inf).amin(1, keepdim=True)
    high_P1 = torch.where(known_PG, rewards_PG, -torch.inf).amax(1, keepdim=True)
    return high_P1 > low_P1
