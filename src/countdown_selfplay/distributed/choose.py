"""Selection of a launch's engine before a model loads, and checks for unsupported combinations."""

from __future__ import annotations

import os
from typing import Any

from ..errors import ConfigError
from .ddp import Engine
from .sharded import FsdpEngine, ZeroEngine, deepspeed_settings


def _on(name: str) -> bool:
    return os.environ.get(name, "false").lower() in ("1", "true", "yes")


def choose_engine(args: Any) -> Engine:
    """Return the engine that `args` (a JointSelfPlayConfig, or TRL's config of a warm start) and accelerate's
    environment imply. Raises ConfigError for an unsupported combination. The environment is read, because accelerate's
    state has silently fallen back to DDP by then: with DeepSpeed's variables and ACCELERATE_USE_CPU, and with FSDP's
    on a machine without GPUs."""
    settings = deepspeed_settings(args)
    if settings is not None:
        _check_deepspeed(args, settings)
        stage = int(settings.get("zero_optimization", {}).get("stage", 0))
        return ZeroEngine(stage, getattr(args, "ds3_gather_for_generation", True))
    if args.fsdp or _on("ACCELERATE_USE_FSDP"):
        _check_fsdp(args)
        return FsdpEngine()
    return Engine()


def _check_deepspeed(args: Any, settings: dict[str, Any]) -> None:
    stage = settings.get("zero_optimization", {}).get("stage", 0)
    for block, cost in (
        ("optimizer", "DeepSpeed would build its own optimizer and lose the learning rates of the roles"),
        ("scheduler", "DeepSpeed would step its own schedule beside the roles' schedules"),
    ):
        if block in settings:
            raise ConfigError(
                f"The DeepSpeed config has a block `{block}`: {cost}; remove it (accelerate_configs/zero{stage or 2}"
                ".yaml has none) and set learning rates and warm-up in the trainer's config."
            )
    trained = {s.weights: s for s in getattr(args, "all_roles", {}).values() if s.trained}  # a warm start has no roles
    if len(trained) < 2:
        return
    offload = settings.get("zero_optimization", {}).get("offload_optimizer") or {}
    if offload.get("device", "none") not in (None, "none"):
        raise ConfigError(
            f"`offload_optimizer_device` ({offload['device']}) would train the last role of a round only: DeepSpeed "
            "hands the CPU the gradients of the last micro-batch alone; set it to none, or use policy_sharing='tied'."
        )
    norms = {args.field_of(s.kind, "max_grad_norm"): s.max_grad_norm for s in trained.values()}
    if len(set(norms.values())) > 1:
        named = " and ".join(f"`{name}` ({value})" for name, value in norms.items())
        raise ConfigError(
            f"{named} must be equal under DeepSpeed, whose step clips all roles together; set `max_grad_norm` alone, "
            "or launch with ddp or fsdp2."
        )


def _check_fsdp(args: Any) -> None:
    given: Any = args.fsdp_config or {}  # transformers has cut the prefix fsdp_ off its keys
    version = given.get("version", 2) if args.fsdp else os.environ.get("FSDP_VERSION", "1")
    if int(version) != 2:
        raise ConfigError(
            "FSDP version 1 is not supported: one module with several policies needs FSDP2; launch with "
            "accelerate_configs/fsdp2.yaml (fsdp_version: 2)."
        )
    for name, why in (
        ("cpu_ram_efficient_loading", "leaves all processes but one without weights to copy; set it to false"),
        ("activation_checkpointing", "would run beside the trainer's; set it to false and use gradient_checkpointing"),
    ):
        if _on(f"FSDP_{name.upper()}") or (args.fsdp and given.get(name)):
            raise ConfigError(f"`fsdp_{name}` (true) {why}, as in accelerate_configs/fsdp2.yaml.")
