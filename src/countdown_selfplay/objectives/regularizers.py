"""KL to the reference and entropy bonus: terms that any objective can carry."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from .base import LossInputs, normalise


def kl_k3(logps_BT: torch.Tensor, ref_BT: torch.Tensor) -> torch.Tensor:
    """Schulman's k3 estimate of KL(pi || ref) per token, in nats: exp(d) - d - 1 with d = log ref - log pi; never
    negative."""
    d_BT = ref_BT - logps_BT
    return torch.exp(d_BT) - d_BT - 1


def kl_k1(logps_BT: torch.Tensor, ref_BT: torch.Tensor) -> torch.Tensor:
    """Schulman's k1 estimate of KL(pi || ref) per token, in nats: log pi - log ref. Unbiased, of either sign. Its
    gradient is that of log pi, whose mean over samples of pi is 0: on-policy a loss term of it anchors nothing on
    average. The code of Allen and Ståblein has it."""
    return logps_BT - ref_BT


KL_ESTIMATORS = {"k3": kl_k3, "k1": kl_k1}


def entropy_bonus(entropy_BT: torch.Tensor, inputs: LossInputs) -> torch.Tensor:
    """Mean entropy per token over the role's round, in nats, as in TRL (independent of how the policy term is
    normalised)."""
    return normalise(entropy_BT, inputs, "token")


@dataclass
class EntropyCoefficient:
    """Adaptive entropy control per role (He et al. 2025, Skywork-OR1), with the settings of TRL's
    `use_adaptive_entropy`: after each round the coefficient grows by `delta` if the role's mean entropy (nats per
    token) is at most `target`, else it shrinks by `delta`, within [low, high]; it is applied only while the entropy is
    at most `target`. Without a target it is the constant `value`. State: `value` and the last entropy."""

    value: float
    target: float | None = None
    delta: float = 0.005
    low: float = 0.0
    high: float = 1.0
    last: float = math.inf

    @property
    def applied(self) -> float:
        """The coefficient of the next loss. In the first round no entropy is known: the target is not undercut."""
        return self.value if self.target is None or self.last <= self.target else 0.0

    def observe(self, entropy: float) -> None:
        """The role's mean entropy of the round, over all processes."""
        self.last = entropy
        if self.target is not None:
            step = self.delta if entropy <= self.target else -self.delta
            self.value = min(max(self.value + step, self.low), self.high)

    def state_dict(self) -> dict[str, float]:
        return {"value": self.value, "last": self.last}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self.last = state["last"]
        if self.target is not None:  # a constant coefficient is the configuration's, as in TRL
            self.value = state["value"]
