"""Estimate, before a model loads, whether a run fits a GPU, and find the least change with which it does."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..errors import ConfigError
from .memory import GIB, Launch, Parts, room_of


def fitting(parts_of: Callable[[Any, Launch], tuple[Parts, Parts, Parts]], args: Any, launch: Launch) -> str:
    """Return a sentence on whether a GPU of the launch holds a run whose texts have full length; "" on a CPU.
    ConfigError if weights, gradients and Adam's state do not fit. `parts_of`: the memory that lasts, that of sampling
    and that of training."""
    if launch.device != "cuda":
        return ""
    room, rows, size = room_of(launch), args.generation_rows, args.per_device_train_batch_size

    def needs(launch: Launch = launch, **changes: Any) -> tuple[float, float, float]:
        """Return the state with gradients, the peak of sampling, and the peak of training."""
        changed = copy.copy(args)
        vars(changed).update(changes)
        parts = parts_of(changed, launch)
        lasting, sampling, training = (sum(size for size, _ in part.values()) for part in parts)
        return lasting + parts[2]["gradients (training)"][0], lasting + sampling, lasting + training

    def cure(half: int) -> str:
        for changes in ways[half]:
            if needs(**changes)[half] <= room:
                sharded = changes.pop("launch", None)
                changed = [f"{name}={v}".lower() for name, v in changes.items() if v != getattr(args, name)]
                return " and ".join(changed or [f"--accelerate_config zero3 --num_processes {sharded.processes}"])
        return "more GPUs"

    sharded = [replace(launch, kind="zero3", processes=2**n) for n in range(1, 7)]
    ways: list[list[dict[str, Any]]] = [
        [{"policy_sharing": "lora"}, *({"launch": one} for one in sharded)],
        [{"generation_rows": max(rows >> n, 1)} for n in range(1, 10)],
        [{"gradient_checkpointing": True, "per_device_train_batch_size": max(size >> n, 1)} for n in range(6)],
    ]
    found = needs()
    cures = [cure(half) for half, most in enumerate(found) if most > room]
    adam = str(getattr(args.optim, "value", args.optim)).startswith("adamw_torch")
    if found[0] > room and adam and not launch.kind.startswith("zero"):  # other states are smaller, or on the CPU
        raise ConfigError(
            f"Weights, optimizer and gradients take {found[0] / GIB:.1f} GiB, and a GPU has {room / GIB:.0f}; the "
            f"least change that fits: {cures[0]}."
        )
    if not cures:
        return f"Fits a GPU of {room / GIB:.0f} GiB."
    return f"Texts of full length do not fit a GPU of {room / GIB:.0f} GiB; the least change: {' and '.join(cures)}."
