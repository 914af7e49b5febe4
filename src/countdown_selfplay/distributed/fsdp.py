"""Engine for FSDP2 (torch's fully_shard): weights, gradients and optimizer are sharded DTensors."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from .. import _trl
from ..errors import ConfigError
from ..policies import PolicySet
from ..policies.optimization import bare
from .ddp import Engine


class FsdpEngine(Engine):
    """Engine of FSDP2. Weights are sharded, and all processes must take the same generation steps."""

    name = "fsdp2"
    optimizer_file = "optimizer.bin"
    shards_weights = True

    def bind(self, accelerator: Any, policies: PolicySet | None, max_grad_norm: float | None) -> None:
        super().bind(accelerator, policies, max_grad_norm)
        if str(accelerator.distributed_type) != "DistributedType.FSDP":
            raise ConfigError(
                f"The launch asked for FSDP and accelerate started {accelerator.distributed_type}, as it does "
                "on a machine without GPUs; launch with ddp or cpu_ddp there."
            )
        if "FULL_STATE_DICT" not in str(accelerator.state.fsdp_plugin.state_dict_type):
            raise ConfigError(
                "`fsdp_state_dict_type` must be FULL_STATE_DICT: a checkpoint holds each policy as a plain model "
                "folder; see accelerate_configs/fsdp2.yaml."
            )
        plugin = accelerator.state.fsdp_plugin
        plugin.mixed_precision_policy = full_precision_outputs(plugin.mixed_precision_policy)

    def place_reference(self, model: nn.Module) -> nn.Module:
        return _trl.inference_copy(model, self.accelerator, "fsdp")

    def full_state(self) -> Mapping[str, Any] | None:
        return self.accelerator.get_state_dict(self.wrapped())

    def before_save(self, optimizer: Any) -> None:
        """Add optimizer state of step 0 for roles that never stepped, without which torch loads nothing."""
        fill_optimizer_state(bare(optimizer))

    def before_first_round(self, optimizer: Any) -> None:
        """Reset the optimizer's step: torch reads the state of an optimizer by stepping it once with gradients and
        learning rate 0, which would leave AdamW's counter one ahead and scale its first step by 0.74."""
        bare(optimizer).state.clear()


def full_precision_outputs(policy: Any) -> Any:
    """Return `policy` without an output cast: in bf16, accelerate's output type, a sum of -500 has an error of 2."""
    return policy if policy is None else dataclasses.replace(policy, output_dtype=None)


def fill_optimizer_state(optimizer: torch.optim.Optimizer) -> None:
    """Add zero state for parameters that have not stepped while others have."""
    known = next((state for state in optimizer.state.values() if state), None)
    if known is None:
        return
    for group in optimizer.param_groups:
        for p in group["params"]:
            if not optimizer.state[p]:
                optimizer.state[p] = {
                    name: torch.zeros_like(value) if value.dim() == 0 else torch.zeros_like(p)
                    for name, value in known.items()
                }
