"""Rules of JointSelfPlayConfig that involve several fields, and rules on a run under its distributed engine. Each
message names field, value, rule and remedy. Ranges and choices of single fields are declared with the fields."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..options import check_options
from ..rewards.learning_progress import needs_progress
from .changes import check_allowed
from .part_rules import check_domain, check_parts, outlast_servers
from .role_rules import check_guard_scope, check_kinds, check_players, check_settings, check_sharing
from .settled import check_compiler, check_reporters, check_run, check_schedule

if TYPE_CHECKING:
    from .joint import JointSelfPlayConfig

_UNREAD = {  # settings of GRPOConfig that the joint losses do not read -> what to set instead
    "loss_type": "prover_objective and conjecturer_objective",
    "scale_rewards": "an objective that scales",
    "epsilon": "importance_clip_low and importance_clip_high, or epsilon_low in prover_objective_kwargs",
    "epsilon_high": "importance_clip_high, or epsilon_high in prover_objective_kwargs",
    "delta": "importance_clip_high",
    "importance_sampling_level": "an objective",
    "multi_objective_aggregation": "an objective",
    "top_entropy_quantile": "prover_entropy_coef and conjecturer_entropy_coef",
    "off_policy_mask_threshold": "importance_clip_low and importance_clip_high",
    "mask_truncated_completions": "prover_max_completion_length",
    "use_bias_correction_kl": "prover_beta and conjecturer_beta",
}
_DERIVED = {  # TRL's own switches of the generation backend -> what to set instead
    "use_vllm": "generation_backend=vllm (in the training process) or generation_backend=vllm_server",
    "vllm_mode": "generation_backend=vllm (colocate) or generation_backend=vllm_server (server)",
    "use_transformers_continuous_batching": "generation_backend=generate or vllm",
    "transformers_continuous_batching_config": "generation_backend=generate or vllm",
    "vllm_structured_outputs_regex": "another prompt: one pattern for all roles would bias every sampling ratio",
}
_UNSUPPORTED = ("use_liger_kernel", "sync_ref_model", "cast_lm_head_to_fp32", "remove_unused_columns")


def before_trl(config: JointSelfPlayConfig) -> None:
    """Check the rules that must hold before TRL derives its batch sizes from the fields."""
    check_reporters(config)
    check_kinds(config)
    check_players(config)
    if not config.trained_roles:
        raise ConfigError("`roles` has no role that is trained: give one of them weights other than start.")
    if config.gradient_accumulation_steps != 1:
        raise ConfigError(
            f"`gradient_accumulation_steps` ({config.gradient_accumulation_steps}) must be 1: a Trainer step is a "
            "round, whose micro-batches follow from what there is to train on; leave it unset."
        )
    steps, batch = config.steps_per_generation, config.generation_batch_size
    if steps not in (None, config.steps_per_round) or (batch is not None and steps is None):
        raise ConfigError(
            f"`steps_per_generation` ({steps}) and `generation_batch_size` ({batch}) cannot be set: a round generates "
            "once for all its optimizer steps; change problems_per_round, proposals_per_round or steps_per_round."
        )
    outlast_servers(config)
    defaults = {f.name: f.default for f in dataclasses.fields(config)}
    for name, instead in _UNREAD.items():
        if (value := getattr(config, name)) != defaults[name]:
            raise ConfigError(f"`{name}` ({value}) is not read by the joint trainer's losses; use {instead}.")
    for name, instead in _DERIVED.items():
        if (value := getattr(config, name)) != defaults[name]:
            raise ConfigError(f"`{name}` ({value}) is not read: the trainer samples in turns; use {instead}.")


def after_trl(config: JointSelfPlayConfig) -> None:
    """Check all other rules, after TRL has derived its fields."""
    check_options(config)
    _ = config.trips, config.game_settings  # their values are checked as they are built
    _check_fields(config)
    _check_trainer_fields(config)
    if config.allow_changed:
        check_allowed(config)
    check_settings(config)
    check_parts(config)
    if config.describes_domain:
        check_domain(config, None)
    check_sharing(config)
    check_guard_scope(config)


def check_roles(config: JointSelfPlayConfig) -> None:
    """Check all rules on roles again, once the roles of a game that was passed as an object are known."""
    check_kinds(config)
    check_players(config)
    check_settings(config)
    check_sharing(config)


def _check_fields(config: JointSelfPlayConfig) -> None:
    """Check fields of this library against each other."""
    fraction, low, high = config.random_fraction, config.importance_clip_low, config.importance_clip_high
    if fraction and config.players_of("conjecturer"):
        raise ConfigError(
            f"`random_fraction` ({fraction}) is for runs without a conjecturer; set conjecturer_players=0, or leave "
            "it at 0."
        )
    if not 0 < low <= 1 <= high:
        raise ConfigError(
            f"`importance_clip_low` ({low}) and `importance_clip_high` ({high}) must satisfy 0 < low <= 1 <= high; "
            "Allen and Ståblein use 0.5 and 2."
        )
    if config.length_penalty_floor is not None and not config.length_penalty:
        raise ConfigError(
            f"`length_penalty_floor` ({config.length_penalty_floor}) bounds a penalty that is not charged; set "
            "length_penalty too, or leave it unset."
        )
    if config.overlong_on != "all" and (config.overlong != "replace" or not config.soft_overlong):
        raise ConfigError(
            f"`overlong_on` ({config.overlong_on}) chooses among the samples that `overlong: replace` charges, and "
            "none is charged so; set overlong=replace and soft_overlong too, or leave it at all."
        )
    if config.mixed_adapters == "on" and config.policy_sharing != "lora":
        raise ConfigError(
            "`mixed_adapters` (on) is for players with an adapter each over one base, and policy_sharing is "
            f"'{config.policy_sharing}'; set policy_sharing=lora, or leave it at auto."
        )


def _check_trainer_fields(config: JointSelfPlayConfig) -> None:
    """Check fields of TRL and Transformers that joint training does not support, or not with these values."""
    for name in _UNSUPPORTED:
        if getattr(config, name):
            raise ConfigError(f"`{name}` (True) is not supported by the joint trainer; leave it unset.")
    if config.num_iterations != 1:
        raise ConfigError(
            f"`num_iterations` ({config.num_iterations}) must be 1: a sample is used for one step; `steps_per_round` "
            "cuts a round into several."
        )
    if config.ddp_find_unused_parameters is False:
        raise ConfigError(
            "`ddp_find_unused_parameters` (False) must be True: a micro-batch holds one role, and DDP would wait for "
            "the other role's gradients; leave it unset."
        )
    kwargs: Any = config.gradient_checkpointing_kwargs
    if config.gradient_checkpointing and isinstance(kwargs, dict) and kwargs.get("use_reentrant"):
        raise ConfigError(
            f"`gradient_checkpointing_kwargs` ({kwargs}) must be non-reentrant: reentrant checkpointing fails with "
            "unused parameters under DDP; leave it unset."
        )
    if config.fp16 or getattr(config, "mixed_precision", None) == "fp16":
        raise ConfigError(
            "`fp16` (True) is not supported: a skipped step of its loss scaler looks like a collapse; use bf16 (or "
            "launch with --mixed_precision bf16)."
        )
    accelerator: Any = config.accelerator_config
    if accelerator.gradient_accumulation_kwargs:
        raise ConfigError(
            "`accelerator_config` (gradient_accumulation_kwargs) must not be set: a Trainer step is a round, whose "
            "optimizer steps are the trainer's own; leave it out."
        )
    if accelerator.split_batches:
        raise ConfigError(
            "`accelerator_config` (split_batches) must be false: each process reads the anchors of the whole round; "
            "leave it out."
        )
    given = config.model_init_kwargs
    model: Any = json.loads(given) if isinstance(given, str) else given or {}
    if not isinstance(model, dict):
        raise ConfigError(f"`model_init_kwargs` ({given!r}) must be a mapping, such as {{'dtype': 'bfloat16'}}.")
    if any(str(model.get(name)).removeprefix("torch.") in ("float16", "half") for name in ("dtype", "torch_dtype")):
        raise ConfigError(
            "`dtype` (float16) is not supported: small gradients and steps round to 0 in it, and answers fall apart "
            "after a few rounds; use bfloat16 or float32."
        )
    if model.get("device_map") is not None:
        raise ConfigError(
            "`model_init_kwargs` (device_map) is not supported: the engine places the policies; leave it out, and "
            "spread a model that is too large for one GPU with accelerate_configs/zero3.yaml or fsdp2.yaml."
        )
    if config.neftune_noise_alpha is not None:
        raise ConfigError(
            f"`neftune_noise_alpha` ({config.neftune_noise_alpha}) would move the embeddings in sampling as in the "
            "loss, which then score other models; leave it unset (`countdown-selfplay sft` takes it)."
        )
    best = config.metric_for_best_model
    if config.load_best_model_at_end and best in (None, "loss"):  # "loss" is the default, and no evaluation logs one
        raise ConfigError(
            "`load_best_model_at_end` (True) needs `metric_for_best_model`, such as eval_pass@1, and an eval_strategy."
        )
    if config.save_strategy == "best" and best is None:
        raise ConfigError(
            "`save_strategy` (best) needs `metric_for_best_model`, such as eval_pass@1, and an eval_strategy."
        )
    if config.save_only_model and config.guard:
        raise ConfigError(
            "`save_only_model` (True) leaves the guard no state to restore; set guard=False or save_only_model=False."
        )


def refuse_unsupported(config: JointSelfPlayConfig, engine: str) -> None:
    """Raise ConfigError, before any model loads, for options that this run cannot support. `engine`: ddp, fsdp or a
    stage of DeepSpeed."""
    check_run(config)
    _check_engine(config, engine)


def refusal(config: JointSelfPlayConfig, engine: str, reward: Any) -> str:
    """Return the error message of a run with `reward` under `engine`, for a dry run; "" if the run is allowed."""
    try:
        check_schedule(config)
        _check_engine(config, engine)
        check_progress(config, engine, reward)
    except ConfigError as error:
        return str(error)
    return ""


def _check_engine(config: JointSelfPlayConfig, engine: str) -> None:
    if config.push_to_hub:
        raise ConfigError(
            "`push_to_hub` (True) is not supported: a checkpoint holds several policies; after training upload the "
            "roles with `trainer.push_to_hub()` or `countdown-selfplay push <output_dir>`."
        )
    if config.enable_jit_checkpoint:
        raise ConfigError(
            "`enable_jit_checkpoint` (True) would save in the middle of a round, which cannot be resumed exactly; "
            "leave it unset: SIGTERM ends a run with a checkpoint at the end of its round anyway."
        )
    if config.torch_compile:
        check_compiler(str(config.torch_compile_backend), config.torch_compile_mode)
    if engine == "ddp":
        return
    if config.load_best_model_at_end:
        raise ConfigError(
            f"`load_best_model_at_end` (True) is not supported under {engine}; leave it unset, and go on from the "
            "checkpoint that trainer_state.json names as best_model_checkpoint."
        )
    if config.guard and config.guard_scope != "run" and config.players_of("conjecturer"):
        raise ConfigError(
            f"`guard_scope` (conjecturer) cannot take one policy back under {engine}, whose checkpoints hold all of "
            "them in one piece; set guard_scope=run, or launch with accelerate_configs/ddp.yaml."
        )
    if engine.startswith("zero") and config.reset_optimizer == "round":
        raise ConfigError(
            "`reset_optimizer` (round) is not supported under DeepSpeed, whose optimizer keeps its moments in its own "
            "buffers; launch with ddp or fsdp2, or set it to never."
        )


def check_progress(config: JointSelfPlayConfig, engine: str, reward: Any) -> None:
    """Check settings on which the reward learning_progress depends: it moves the prover's weights temporarily."""
    if not needs_progress(reward):
        return
    start, optimizer = "`conjecturer_reward` learning_progress", getattr(config.optim, "value", config.optim)
    if engine != "ddp":
        raise ConfigError(
            f"{start} scores answers with moved weights, which {engine} holds in parts; launch with "
            "accelerate_configs/ddp.yaml, or set another reward."
        )
    if config.tf32 or "float16" in str(config.model_init_kwargs):
        raise ConfigError(
            f"{start} compares log-probs before and after a part of one step, which weights of 16 bits, or tf32, "
            "cannot tell apart: the rewards would be noise; set dtype=float32 and leave tf32 unset (bf16 may stay "
            "on), or set another reward."
        )
    if optimizer not in ("adamw_torch", "adamw_torch_fused"):
        raise ConfigError(
            f"{start} follows Adam's moments, which `optim` ({optimizer}) may not keep; set `optim` to adamw_torch or "
            "adamw_torch_fused, or set another reward."
        )
    if config.reset_optimizer == "round":
        raise ConfigError(
            f"{start} follows Adam's moments, which `reset_optimizer` (round) drops before the step that it foresees; "
            "set it to never, or set another reward."
        )
