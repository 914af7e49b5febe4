"""A role's loss on one micro-batch: the objective, KL to the reference, entropy bonus; and the sums behind its
metrics."""

from __future__ import annotations

import torch

from .config import RoleSettings
from .objectives.base import LossInputs, Objective
from .objectives.normalization import normalise
from .objectives.regularizers import EntropyCoefficient, entropy_bonus, kl_k3


class RoleLoss:
    """Loss of a role, normalised by the role's own counts in the round, so that the mix of roles in an accumulation
    window does not change a role's effective learning rate."""

    def __init__(self, objective: Objective, settings: RoleSettings) -> None:
        self.objective, self.settings = objective, settings
        self.sequences = self.tokens = self.groups = 1.0
        self.entropy = EntropyCoefficient(
            settings.entropy_coef,
            settings.entropy_target,
            settings.entropy_coef_delta,
            settings.entropy_coef_min,
            settings.entropy_coef_max,
        )
        self._sums: dict[str, torch.Tensor] = {}

    def new_round(self, sequences: float, tokens: float, groups: float = 1.0) -> None:
        """Completions, completion tokens and prompts of the role that are trained on in this round, per process
        (global counts / processes)."""
        self.sequences, self.tokens, self.groups = sequences, tokens, groups

    def __call__(self, logps: torch.Tensor, entropies: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        inputs = LossInputs(
            logps_BT=logps,
            behavior_BT=_behavior(logps, batch),
            advantages_B=batch["advantages"].to(logps.device),
            mask_BT=batch["completion_mask"].to(logps.dtype),
            sequences=self.sequences,
            tokens=self.tokens,
            groups=self.groups,
            length_cap=self.settings.max_completion_length,
            group_tokens_B=batch["group_tokens"].to(logps.dtype) if "group_tokens" in batch else None,
        )
        output = self.objective.loss(inputs)
        loss = output.loss
        for name, value in output.sums.items():
            self._add(name, value / (self.sequences or 1.0))
        if "ref_per_token_logps" in batch:
            kl_BT = kl_k3(logps, batch["ref_per_token_logps"])
            if self.settings.kl_in == "loss":
                loss = loss + self.settings.beta * normalise(kl_BT, inputs, self.objective.normalization)
            self._add("kl", normalise(kl_BT, inputs, "token"))
        if self.entropy.applied:
            loss = loss - self.entropy.applied * entropy_bonus(entropies, inputs)
        self._add("entropy", entropy_bonus(entropies.detach(), inputs))
        self._add("loss", loss)
        return loss

    def end_of_round(self, entropy: float | None) -> None:
        """The role's mean entropy over all processes, for the adaptive coefficient; None if it was not measured."""
        if entropy is not None and self.sequences:
            self.entropy.observe(entropy)

    def _add(self, name: str, value: torch.Tensor) -> None:
        value = value.detach().double()
        self._sums[name] = self._sums[name] + value if name in self._sums else value

    def pop_sums(self) -> dict[str, torch.Tensor]:
        """Metrics of the round on this process (each its share of the round's mean), and a clean slate."""
        sums, self._sums = self._sums, {}
        return sums


def _behavior(logps: torch.Tensor, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Log-probs under the policy that sampled: the sampler's own, else those before the round, else the current
    ones."""
    current = logps.detach()
    sampled = batch.get("sampling_per_token_logps", batch.get("old_per_token_logps"))
    # A sampler that could not score a token gives NaN there: that token gets ratio 1, no correction.
    return current if sampled is None else torch.where(torch.isnan(sampled), current, sampled)
