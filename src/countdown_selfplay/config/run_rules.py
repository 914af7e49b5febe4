"""Rules that depend on the environment of a run: its distributed engine, its packages and its output folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import get_scheduler
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

from ..errors import ConfigError
from ..rewards.learning_progress import needs_progress
from .rules import Broken, check_rules

if TYPE_CHECKING:
    from .joint import JointSelfPlayConfig

_RULES: tuple[tuple[Broken, str], ...] = (
    (
        lambda c: c.push_to_hub,
        "`push_to_hub` (True) is not supported: a checkpoint holds several policies; after training upload the roles "
        "with `trainer.push_to_hub()` or `countdown-selfplay push <output_dir>`.",
    ),
    (
        lambda c: c.enable_jit_checkpoint,
        "`enable_jit_checkpoint` (True) would save in the middle of a round, which cannot be resumed exactly; leave "
        "it unset: SIGTERM ends a run with a checkpoint at the end of its round anyway.",
    ),
)
_FOLLOWED: tuple[tuple[Broken, str], ...] = (  # of rewards that move the prover's weights and back
    (
        lambda c: c.tf32 or "float16" in str(c.model_init_kwargs),
        "`conjecturer_reward` {reward} compares log-probs before and after a part of one step, which weights of 16 "
        "bits, or tf32, cannot tell apart: the rewards would be noise; set dtype=float32 and leave tf32 unset (bf16 "
        "may stay on), or set another reward.",
    ),
    (
        lambda c: c.optim not in ("adamw_torch", "adamw_torch_fused"),
        "`conjecturer_reward` {reward} follows Adam's moments, which `optim` ({c.optim.value}) may not keep; "
        "set `optim` to adamw_torch or adamw_torch_fused, or set another reward.",
    ),
    (
        lambda c: c.reset_optimizer == "round",
        "`conjecturer_reward` {reward} follows Adam's moments, which `reset_optimizer` (round) drops before the step "
        "that it foresees; set it to never, or set another reward.",
    ),
)
_SHARDED: tuple[tuple[Broken, str], ...] = (  # under deepspeed and fsdp, by {engine}
    (
        lambda c: c.load_best_model_at_end,
        "`load_best_model_at_end` (True) is not supported under {engine}; leave it unset, and go on from the "
        "checkpoint that trainer_state.json names as best_model_checkpoint.",
    ),
    (
        lambda c: c.guard and c.guard_scope != "run" and c.players_of("conjecturer"),
        "`guard_scope` (conjecturer) cannot take one policy back under {engine}, whose checkpoints hold all of them "
        "in one piece; set guard_scope=run, or launch with accelerate_configs/ddp.yaml.",
    ),
)
_DEEPSPEED: tuple[tuple[Broken, str], ...] = (
    (
        lambda c: c.reset_optimizer == "round",
        "`reset_optimizer` (round) is not supported under DeepSpeed, whose optimizer keeps its moments in its own "
        "buffers; launch with ddp or fsdp2, or set it to never.",
    ),
)


def refuse_unsupported(config: JointSelfPlayConfig, engine: str) -> None:
    """Raise ConfigError, before any model loads, for options that this run cannot support. `engine`: ddp, fsdp or a
    stage of DeepSpeed."""
    check_run(config)
    _check_engine(config, engine)


def refusal(config: JointSelfPlayConfig, engine: str, reward: Any) -> str:
    """Return, for a dry run, the message that refuses a run with `reward` under `engine`; "" if none does."""
    try:
        check_schedule(config)
        _check_engine(config, engine)
        check_progress(config, engine, reward)
    except ConfigError as error:
        return str(error)
    return ""


def _check_engine(config: JointSelfPlayConfig, engine: str) -> None:
    check_rules(config, _SHARDED if engine != "ddp" else (), engine=engine)
    check_rules(config, _DEEPSPEED if engine.startswith("zero") else ())
    check_rules(config, _RULES)


def check_progress(config: JointSelfPlayConfig, engine: str, reward: Any) -> None:
    """Check the settings that the reward learning_progress needs, which moves the prover's weights temporarily."""
    name = "learning_progress"
    if not needs_progress(reward):
        return
    if engine != "ddp":
        raise ConfigError(
            f"`conjecturer_reward` {name} scores answers with moved weights, which "
            f"{engine} holds in parts; launch with accelerate_configs/ddp.yaml, or set another reward."
        )
    check_rules(config, _FOLLOWED, reward=name)


def check_run(config: Any) -> None:
    """Check that the packages of `report_to` are installed and that `output_dir` can be written. Skipped by a dry run,
    which may plan for another machine."""
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
