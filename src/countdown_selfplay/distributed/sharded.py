"""Engines that shard: DeepSpeed ZeRO-1, 2 and 3 (the optimizer steps inside backward; stage 3 shards the weights),
and FSDP2, torch's fully_shard (weights, gradients and optimizer are sharded DTensors)."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .. import _trl
from ..config import Role
from ..data.jsonl import json_file
from ..errors import ConfigError
from ..policies import PolicySet
from ..policies.optimization import bare
from .ddp import Engine, Score

logger = logging.getLogger(__name__)


def deepspeed_settings(args: Any) -> dict[str, Any] | None:
    """Return the DeepSpeed config that `args` or the launcher's environment names, or None."""
    given: Any = args.deepspeed
    if args.deepspeed_plugin is not None:
        return dict(args.deepspeed_plugin.deepspeed_config)
    if given is None:
        return None
    return dict(given) if isinstance(given, Mapping) else json_file(Path(given), "`deepspeed` names it")


class ZeroEngine(Engine):
    """Engine of DeepSpeed. Unlike under DDP, one clip applies to all roles and a role without credited samples is held
    inside backward, where the step happens; ZeRO-3 needs every role in the first micro-batch."""

    optimizer_file = "latest"  # DeepSpeed's pointer to its folder of shards

    def __init__(self, stage: int, gather_for_generation: bool = True) -> None:
        self.stage, self.gather_for_generation = stage, gather_for_generation
        self.name = f"zero{stage}"
        self.shards_weights = stage == 3
        self.hooks: list[Any] = []  # hooks of the current optimizer

    def bind(self, accelerator: Any, policies: PolicySet | None, max_grad_norm: float | None) -> None:
        super().bind(accelerator, policies, max_grad_norm)
        if str(accelerator.distributed_type) != "DistributedType.DEEPSPEED":
            raise ConfigError(
                f"The launch asked for DeepSpeed and accelerate started {accelerator.distributed_type}; unset "
                "ACCELERATE_USE_CPU, which turns DeepSpeed off without a word."
            )
        settings = accelerator.state.deepspeed_plugin.deepspeed_config
        zero = settings.get("zero_optimization", {})
        if self.stage == 3 and not zero.get("stage3_gather_16bit_weights_on_model_save"):
            raise ConfigError(
                "`zero3_save_16bit_model` (false) would leave checkpoints without the policies' weights; set it to "
                "true, as in accelerate_configs/zero3.yaml."
            )
        # A config without the key would not clip at all: the Trainer's clip is skipped under DeepSpeed.
        if settings.get("gradient_clipping") in (None, "auto"):
            settings["gradient_clipping"] = float(max_grad_norm or 0.0)
        if policies is not None and len(policies.weight_names) > 1 and accelerator.is_main_process:
            logger.warning(
                "DeepSpeed clips the gradients of all roles together (at %s): a role with a large gradient shrinks "
                "the others' steps. DDP and FSDP2 clip each role by itself.",
                settings["gradient_clipping"],
            )

    def place_reference(self, model: nn.Module) -> nn.Module:
        return _trl.inference_copy(model, self.accelerator, "deepspeed")

    def sampling(self) -> AbstractContextManager[Any]:
        """Make TRL gather, inside the block under ZeRO-3, only the weights of the active policy."""
        engine, module = self.wrapped(), self.policies.module
        own = {"parameters": lambda: getattr(module, "policy", module).parameters()}
        return _trl.swapped(engine, own if self.stage == 3 and engine is not module else {})

    def whole_weights(self) -> Any:
        if self.stage != 3:
            return super().whole_weights()
        return _trl.whole_for_generation(self.wrapped(), self.accelerator, self.gather_for_generation)

    def no_sync(self, model: nn.Module) -> AbstractContextManager[Any]:
        return nullcontext()  # DeepSpeed reads accelerate's flag

    def before_backward(
        self, loss: torch.Tensor, role: str, score: Score, wrapped: nn.Module, first: bool
    ) -> torch.Tensor:
        """Add 0 times the log-prob of one token under each other policy to a step's first loss under ZeRO-3, which
        overwrites gradient buffers in the first backward pass and adds to them later: a role without a part in the
        first pass would silently get its previous step's gradient added."""
        if self.stage != 3 or not first:
            return loss
        token = torch.zeros((1, 1), dtype=torch.long, device=loss.device)
        parts = {"ids": token, "mask": torch.ones_like(token)}
        batch = {f"{part}_{name}": value for part in ("prompt", "completion") for name, value in parts.items()}
        for name in self.policies.weight_names:
            if name != self.policies.weights_of[role]:
                self.policies.activate(self.policies.shared_by(name)[0])
                logps, _ = score(wrapped, batch)
                loss = loss + 0.0 * logps.sum()
        self.policies.activate(role)
        return loss

    def before_last_backward(self, optimizer: Any, held: frozenset[str]) -> None:
        """Keep weights and moments of the `held` roles unchanged by hooks of the optimizer's step, because DeepSpeed
        sets the gradients of its flat parameters only inside its own step."""
        while hasattr(optimizer, "optimizer"):  # inside accelerate's wrapper and DeepSpeed's
            optimizer = optimizer.optimizer
        while self.hooks:
            self.hooks.pop().remove()
        if held:
            hold = Hold(held)
            self.hooks += [
                optimizer.register_step_pre_hook(hold.before),
                optimizer.register_step_post_hook(hold.after),
            ]

    def clip(self, optimizer: Any, settings: Mapping[str, Role], held: frozenset[str]) -> dict[str, float]:
        return {}  # already done inside backward

    def full_state(self) -> Mapping[str, Any] | None:
        return self.accelerator.get_state_dict(self.wrapped()) if self.stage == 3 else None

    def release(self) -> bool:
        engine: Any = self.wrapped()
        engine.destroy()
        self.accelerator.free_memory()
        return True


class Hold:
    """Hooks of an optimizer's step that leave parameters and moments of `roles` unchanged. Missing moments are created
    at step 0, because DeepSpeed's checkpoints need them."""

    def __init__(self, roles: frozenset[str]) -> None:
        self.roles = roles
        self.fresh: list[torch.nn.Parameter] = []
        self.rates: list[tuple[dict[str, Any], float]] = []

    def before(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        for group in optimizer.param_groups:
            if group["role"] in self.roles:
                self.rates.append((group, group["lr"]))
                group["lr"] = 0.0
                for parameter in group["params"]:
                    if optimizer.state.get(parameter):
                        parameter.grad = None
                    else:
                        self.fresh.append(parameter)

    def after(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        while self.fresh:
            state = optimizer.state[self.fresh.pop()]
            for name, value in state.items():
                state[name] = value.zero_() if torch.is_tensor(value) else type(value)()
        while self.rates:
            group, group["lr"] = self.rates.pop()


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
    """Create zero optimizer state for the parameters without state, if another parameter has state."""
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
