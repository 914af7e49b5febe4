"""Estimate, before a model loads, of whether a run fits a GPU, and of the least change with which it does."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..config.role_rules import check_guard_scope, check_sharing
from ..errors import ConfigError
from .memory import GIB, Launch, Parts, room_of, total


def fitting(plans: Callable[[Any, Launch], tuple[Parts, Parts, Parts]], args: Any, launch: Launch) -> str:
    """Return a sentence on whether a GPU of the launch holds a run whose texts have full length; "" on a CPU. Raises
    ConfigError if weights, gradients and the state of AdamW do not fit, except under ZeRO, which may offload. `plans`:
    function of config and launch that returns the persistent memory, that of sampling and that of training."""
    if launch.device != "cuda":
        return ""
    room, rows, size = room_of(launch), args.generation_rows, args.per_device_train_batch_size

    def needs(launch: Launch = launch, **changes: Any) -> tuple[float, ...]:
        """Return the state with gradients, the peak of sampling, and that of training; () if settings are refused."""
        changed = copy.copy(args)
        vars(changed).update(changes)
        try:
            check_sharing(changed)
            check_guard_scope(changed)
        except ConfigError:
            return ()
        lasting, sampling, training = plans(changed, launch)
        return total(lasting) + training["gradients (training)"][0], total(lasting, sampling), total(lasting, training)

    fewer = [max(rows >> n, 1) for n in range(1, 10)]
    sharded = [replace(launch, kind="zero3", processes=2**n) for n in range(1, 7)]
    ways: list[list[dict[str, Any]]] = [
        [{"policy_sharing": "lora"}, *({"launch": one, "guard_scope": "run"} for one in sharded)],
        [{"generation_rows": n, "per_device_eval_batch_size": min(args.per_device_eval_batch_size, n)} for n in fewer],
        [{"gradient_checkpointing": True, "per_device_train_batch_size": max(size >> n, 1)} for n in range(6)],
    ]
    found, change = needs(), dict[str, Any]()
    now = found
    for half, tried in enumerate(ways):
        if now[half] > room:
            planned = ((change | way, needs(**change | way) or found) for way in tried)
            change, now = next((one for one in planned if one[1][half] <= room), (change, now))
    used = change.pop("launch", None)
    cures = [f"{name}={value}".lower() for name, value in change.items() if value != getattr(args, name)]
    cures += [f"--accelerate_config zero3 --num_processes {used.processes}"] if used else []
    cure = " and ".join([*cures, *["more GPUs"] * (max(now) > room)])
    adam = str(getattr(args.optim, "value", args.optim)).startswith("adamw_torch")
    if found[0] > room and adam and not launch.kind.startswith("zero"):  # other states are smaller, or on the CPU
        raise ConfigError(
            f"Weights, optimizer and gradients take {found[0] / GIB:.1f} GiB, and a GPU has {room / GIB:.0f}; the "
            f"least change that fits: {cure}."
        )
    if max(found) <= room:
        return f"Fits a GPU of {room / GIB:.0f} GiB."
    return f"Texts of full length do not fit a GPU of {room / GIB:.0f} GiB; the least change: {cure}."
