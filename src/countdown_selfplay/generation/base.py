"""What the trainer asks of a generation backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from ..training.trainer import JointConjecturerProverTrainer


class Sampler(ABC):
    """A backend. Built once, at the end of the trainer's constructor; then, for every turn of a role: `begin`, one
    generation through TRL, `finish`."""

    def __init__(self, trainer: JointConjecturerProverTrainer) -> None:
        self.trainer = trainer

    @abstractmethod
    def begin(self, role: str) -> dict[str, Any]:
        """Make the weights that sample those of `role`. Returns the attributes that the trainer must have while the
        role samples. Called by all processes."""

    def finish(self, tensors: dict[str, torch.Tensor]) -> None:  # noqa: B027 -- most backends have nothing to add
        """Add `sampling_per_token_logps` (B, T) where the backend knows them and TRL did not pass them on."""


class Generate(Sampler):
    """The trained model's own `generate`. It samples from the very weights and code that the loss uses, so there is no
    other policy to correct for, and no second pass for log-probs."""

    def begin(self, role: str) -> dict[str, Any]:
        return {}
