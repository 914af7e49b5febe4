"""What an objective is: selection, credit per sample, then a loss. Shapes: P problems (or prompts), G samples each,
B rows, T tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import torch

Normalization = Literal["sequence", "sequence_mean", "token", "group", "length_cap"]


@dataclass(frozen=True)
class LossInputs:
    """One micro-batch of one role.

    logps_BT: log-probabilities of the sampled tokens under the current weights, with gradient.
    behavior_BT: the same under the policy that sampled (the sampler's if it gives them), without gradient.
    advantages_B: credit of each completion. mask_BT: 1 on completion tokens that are trained on, else 0; all 0 in the
        rows that the objective did not select.
    group_tokens_B: trained tokens of the row's whole group, also where a micro-batch cuts the group. None: unknown.
    sequences, tokens, groups: completions, completion tokens and prompts that are trained on in the whole round,
        divided by the number of processes. A loss divides its sums by one of them, so that the mean over micro-batches
        and processes does not depend on how the round is cut into micro-batches.
    length_cap: most tokens that a completion of the role can have.
    correction: (B, T) or (B, 1), weight of a sampler that is not the trained model, for objectives with
        `sampler_correction = "truncated"`; behavior_BT is then that of the trained model. None: no other sampler.
    """

    logps_BT: torch.Tensor
    behavior_BT: torch.Tensor
    advantages_B: torch.Tensor
    mask_BT: torch.Tensor
    sequences: float
    tokens: float
    groups: float = 1.0
    length_cap: int = 1
    group_tokens_B: torch.Tensor | None = None
    correction: torch.Tensor | None = None


@dataclass(frozen=True)
class LossOutput:
    """`loss` is this micro-batch's share of the round's loss; `sums` are summed over the round for the metrics."""

    loss: torch.Tensor
    sums: dict[str, torch.Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Replay:
    """An objective that trains on kept samples instead of the round's own.

    rounds: how many rounds a selected sample stays, its own included; None: for ever. solved_limit: problems with this
    many correct answers so far are no longer played if others are at hand, nor trained on; None: no limit. capacity:
    most samples that are kept, the newest first.
    """

    rounds: int | None
    solved_limit: int | None = None
    capacity: int = 8192


class Objective(Protocol):
    """Selection, credit and loss of a role. Built once per role."""

    # How a sum over tokens becomes a mean (see objectives.normalization). The KL term is normalised in the same way,
    # so that its weight against the policy term does not depend on length.
    normalization: Normalization

    def advantages(self, rewards_PG: torch.Tensor, correct_PG: torch.Tensor | None) -> torch.Tensor:
        """(P, G) rewards, NaN where a sample has none, and correctness bits (None for a role that has none: the
        conjecturer) -> (P, G) finite advantages."""
        ...

    def loss(self, inputs: LossInputs) -> LossOutput: ...


class BaseObjective:
    """What an objective may leave as it is: every sample is selected, nothing is remembered."""

    normalization: Normalization = "sequence"
    replay: Replay | None = None
    needs_correctness = False  # cannot train a role without the verifier's bit
    reads_rewards = True  # False: the bit alone counts for a role that has it
    needs_samples = 1  # per prompt
    # How a sampler that is not the trained model enters. ratio: its log-probs are behavior_BT, and the objective's own
    # weight or clip bounds the ratio. truncated: TRL's truncated weight, apart from the objective's ratio.
    sampler_correction: Literal["ratio", "truncated"] = "ratio"

    def select(self, rewards_PG: torch.Tensor, correct_PG: torch.Tensor | None) -> torch.Tensor:
        """(P, G) bools: the samples that are trained on. The others count in no mean of the loss."""
        return torch.ones_like(rewards_PG, dtype=torch.bool)

    def observe(self, mean_reward: float | None) -> None:
        """Called after each round with the role's mean reward over all processes; None if no sample had one."""

    def state_dict(self) -> dict[str, Any]:
        """JSON values that a resumed run needs."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of state_dict."""
