"""What an objective is: credit per sample, then a loss. Shapes: P problems (or prompts), G samples each, B rows, T
tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch


@dataclass(frozen=True)
class LossInputs:
    """One micro-batch of one role.

    logps_BT: log-probabilities of the sampled tokens under the current weights, with gradient.
    behavior_BT: the same under the policy that sampled (the sampler's if it gives them), without gradient.
    advantages_B: credit of each completion. mask_BT: 1 on completion tokens, else 0.
    sequences, tokens: completions and completion tokens of the role in the whole round, divided by the number of
        processes. A loss divides its sums by one of them, so that the mean over micro-batches and processes does not
        depend on how the round is cut into micro-batches.
    """

    logps_BT: torch.Tensor
    behavior_BT: torch.Tensor
    advantages_B: torch.Tensor
    mask_BT: torch.Tensor
    sequences: float
    tokens: float


@dataclass(frozen=True)
class LossOutput:
    """`loss` is this micro-batch's share of the round's loss; `sums` are summed over the round for the metrics."""

    loss: torch.Tensor
    sums: dict[str, torch.Tensor] = field(default_factory=dict)


class Objective(Protocol):
    """Credit and loss of a role. Built once per role, with the clamp of the importance weight as arguments."""

    # "sequence": sums over a completion's tokens are averaged over completions; "token": averaged over all tokens.
    # The KL term is normalised in the same way, so that its weight against the policy term does not depend on length.
    normalization: str

    def advantages(self, rewards_PG: torch.Tensor, correct_PG: torch.Tensor) -> torch.Tensor:
        """(P, G) rewards, NaN where a sample has none, and correctness bits -> (P, G) finite advantages."""
        ...

    def loss(self, inputs: LossInputs) -> LossOutput: ...
