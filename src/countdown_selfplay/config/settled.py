"""Rules on fields that TRL and Transformers declare, and their defaults, for the configs of all trainers. The two
libraries accept NaN, and values that have no effect or with which a run fails late."""

from __future__ import annotations

import copy
import dataclasses
import os
from pathlib import Path
from typing import Any, Self

import torch
from transformers import TrainingArguments, get_scheduler
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK
from transformers.utils import logging

from ..errors import ConfigError
from ..options import INF, Help, Range, help_of, hints_of, json_object, typed
from ..registry import suggestion
from .roles import FIELDS, PLAIN

logger = logging.get_logger(__name__)

_OFF = "0 switches it off"
_SEED = Range(0, 2**32 - 1, "NumPy's generator takes no other")
_STEPS = Range(0, INF, "a share of the steps below 1, else a number of steps")
_RANGES = {name: help_of(FIELDS[name]).range for name in PLAIN} | {
    "max_length": Range(1, INF, "tokens of a row"),
    "min_p": Range(0, 1, _OFF),
    "weight_decay": Range(0, INF, _OFF),
    # 1 is not allowed: the mean would keep nothing new, and its correction divide by 0
    "adam_beta1": Range(0, 1, "the share that the mean keeps", below=True),
    "adam_beta2": Range(0, 1, "the share that the mean square keeps", below=True),
    "adam_epsilon": Range(0, INF, "it keeps a step finite"),
    "num_train_epochs": Range(0, INF, "passes over the data", above=True),
    "save_steps": _STEPS,
    "eval_steps": _STEPS,
    "save_total_limit": Range(1, INF, "checkpoints; leave it unset to keep all"),
    "dataloader_num_workers": Range(0, INF, "0 loads in the main process"),
    "per_device_train_batch_size": Range(1, INF, "rows of a micro-batch"),
    "per_device_eval_batch_size": Range(1, INF, "samples"),
    "num_generations_eval": Range(1, INF, "answers per problem"),
    "seed": _SEED,
    "data_seed": _SEED,
}
_OBJECTS = (
    *("model_init_kwargs", "generation_kwargs", "chat_template_kwargs", "lr_scheduler_kwargs"),
    *("gradient_checkpointing_kwargs", "activation_checkpointing_kwargs"),
)


def check_numbers(config: Any) -> None:
    """Convert fields of the dataclass `config` to their types. Raises ConfigError for a wrong type, a number out of
    range, text that is no JSON object where one is expected, and 0 for max_steps, save_steps or eval_steps in use."""
    declared: Any = type(config)
    for field in dataclasses.fields(config):
        value = getattr(config, field.name, None)
        is_ours = isinstance(field.metadata.get("help"), Help)  # made by `option`
        if is_ours or ("help" in field.metadata and field.type == "int" and hasattr(config, field.name)):
            value = typed(field.name, hints_of(declared)[field.name] if is_ours else int, value)
            setattr(config, field.name, value)
        if field.name in _OBJECTS and isinstance(value, str):
            json_object(field.name, value)
        _RANGES.get(field.name, help_of(field).range).check(field.name, value)
    for kind, nothing in (("save", "no checkpoint before the end"), ("eval", "no evaluation during training")):
        steps, strategy = f"{kind}_steps", f"{kind}_strategy"
        if getattr(config, steps, None) == 0 and getattr(config, strategy, "no") == "steps":
            raise ConfigError(
                f"`{steps}` (0) would give {nothing}; set it to 1 or more steps, to a share of them below 1, or set "
                f"{strategy}=no."
            )
    rounds = getattr(config, "max_steps", -1)
    if rounds < 1 and rounds != -1:
        raise ConfigError(f"`max_steps` ({rounds}) must be at least 1, or -1 to go by num_train_epochs.")


def check_reporters(config: Any) -> None:
    """Check the names in `report_to`, which Transformers checks only after the models have loaded."""
    given = config.report_to
    known = [*INTEGRATION_TO_CALLBACK, "all", "none"]
    for name in [given] if isinstance(given, str) else given or []:
        if name not in known:
            raise ConfigError(f"`report_to` ({name}) must be one of {', '.join(known)}.{suggestion(name, known)}")


def check_run(config: Any) -> None:
    """Check that the packages of `report_to` are installed, that `output_dir` can be written, and the schedule and
    `resume_from_checkpoint`. A dry run, which may plan for another machine, does not call it."""
    for name in config.report_to:
        try:
            INTEGRATION_TO_CALLBACK[name]()
        except (RuntimeError, ImportError, ValueError) as error:  # it looks for its package when it is made
            raise ConfigError(
                f"`report_to` ({name}) cannot be used here: {error} Or pass --report_to none."
            ) from error
    check_output(config.output_dir)
    check_schedule(config)
    if config.resume_from_checkpoint == "":  # an unset variable of a shell would start anew, silently
        raise ConfigError(
            "`resume_from_checkpoint` ('') must be true, auto or a checkpoint's folder; leave it unset to start."
        )


def check_schedule(config: Any) -> None:
    """Check that the learning rate schedule can be built from its arguments."""
    try:
        stand_in = torch.optim.SGD([torch.zeros(1)])
        kwargs = config.lr_scheduler_kwargs
        get_scheduler(config.lr_scheduler_type, stand_in, 0, 10, scheduler_specific_kwargs=kwargs)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise ConfigError(
            f"`lr_scheduler_type` ({getattr(config.lr_scheduler_type, 'value', config.lr_scheduler_type)}) with "
            f"`lr_scheduler_kwargs` ({kwargs}) cannot be used: {error}; give it its arguments, or take linear, cosine "
            "or constant, which need none."
        ) from error


def check_compiler(name: str, mode: str | None) -> None:
    """Check backend and mode of `torch.compile`; neither may record CUDA graphs."""
    known = [one for one in torch._dynamo.list_backends(exclude_tags=()) if one != "cudagraphs"]
    if name not in known:
        raise ConfigError(
            f"`torch_compile_backend` ({name}) must be one of {', '.join(known)}.{suggestion(name, known)}"
        )
    options = torch._inductor.list_mode_options()
    modes = [name for name, set_options in options.items() if not set_options.get("triton.cudagraphs")]
    if mode is not None and name == "inductor" and mode not in modes:
        why = ": it records a CUDA graph for each shape, of which a round has many" if mode in options else ""
        raise ConfigError(
            f"`torch_compile_mode` ({mode}) must be one of {', '.join(modes)}{why}.{suggestion(mode, modes)}"
        )


def check_output(folder: str | None) -> None:
    """Check that `folder` exists or can be created, and that files can be written to it."""
    if folder == "":
        raise ConfigError("`output_dir` ('') must name a folder; leave it unset for the default.")
    if folder is not None and os.path.lexists(folder) and not Path(folder).is_dir():
        raise ConfigError(f"`output_dir` ({folder}) is a file, or a link that leads nowhere; name a folder.")
    path = Path(folder or ".").absolute()
    there = next(p for p in (path, *path.parents) if p.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        why = "is not writable" if there.is_dir() else "is a file"
        raise ConfigError(f"`output_dir` ({folder}) must be a folder that can be made and written to; {there} {why}.")


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
