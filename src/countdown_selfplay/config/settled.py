"""Additions to TRL's config classes: defaults that depend on the device, and no hub token in pickled files."""

from __future__ import annotations

import copy
from typing import Any, Self

import torch
from transformers import TrainingArguments
from transformers.utils import logging

logger = logging.get_logger(__name__)


class Settled:
    """Mixin of the configs of all trainers; list it before TRL's class."""

    def settle(self) -> None:
        """Fill in unset settings that depend on the device or were renamed. Call it before TRL's `__post_init__`."""
        args: Any = self
        if args.bf16 is None:
            # TRL's default is bf16 everywhere, which is slow or fails on CPUs without it: decide by device.
            args.bf16 = bool(
                not args.fp16 and not args.use_cpu and torch.cuda.is_available() and torch.cuda.is_bf16_supported()
            )
        if not torch.accelerator.is_available() or args.use_cpu:
            args.dataloader_pin_memory = False  # torch warns at every start that there is nothing to pin for
        # transformers renamed these two; TRL still sets the old names, which would warn.
        if args.activation_checkpointing is None:
            args.activation_checkpointing = args.gradient_checkpointing
        if args.activation_checkpointing_kwargs is None:
            args.activation_checkpointing_kwargs = args.gradient_checkpointing_kwargs
        if args.activation_checkpointing and not args.activation_checkpointing_kwargs:
            args.activation_checkpointing_kwargs = {"use_reentrant": False}

    @property
    def n_gpu(self) -> int:
        """Number of GPUs used, at most 1: with several and no launcher, Trainer would wrap the model in
        `nn.DataParallel`, which TRL refuses."""
        visible: int = super().n_gpu  # type: ignore[misc]  # of TrainingArguments
        if visible > 1:
            logger.warning_once(
                f"{visible} GPUs are visible and this process uses the first (CUDA_VISIBLE_DEVICES chooses another); "
                f"for all of them add `--accelerate_config ddp --num_processes {visible}`, or start the script with "
                "`accelerate launch`."
            )
        return min(visible, 1)

    # hub_token stays in memory only: TrainingArguments is pickled into every checkpoint (training_args.bin).
    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "hub_token": None}

    def __copy__(self) -> Self:
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        return new

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = object.__new__(type(self))
        memo[id(self)] = new
        new.__dict__.update({key: copy.deepcopy(value, memo) for key, value in self.__dict__.items()})
        return new

    def __repr__(self) -> str:  # the one that a dataclass generates would print hub_token
        return TrainingArguments.__str__(self)  # type: ignore[arg-type]
