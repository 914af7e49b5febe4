"""Rules of JointSelfPlayConfig that involve several fields. Each message names field, value, rule and remedy. Ranges
and choices of single fields are declared with the fields (options.py)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

from ..domains import domain_from
from ..errors import ConfigError
from ..options import check_options
from ..registry import suggestion
from .changes import NEVER, PARTS, allowed_names, plain_name
from .countdown_fields import CountdownArguments
from .generation_rules import check_generation, outlast_servers
from .part_rules import check_fill, check_parts, check_placebo, check_problems, check_stops
from .role_rules import check_guard_scope, check_kinds, check_players, check_settings, check_sharing
from .roles import FIELDS

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
Broken = Callable[[Any], object]


def _reentrant(given: object) -> bool:
    return isinstance(given, dict) and bool(given.get("use_reentrant"))


def _init(given: object) -> dict[str, Any]:
    """Return `model_init_kwargs` as a dict, from a dict or JSON text; {} for any other value."""
    arguments = json.loads(given) if isinstance(given, str) else given
    return arguments if isinstance(arguments, dict) else {}


def _half(given: object) -> bool:
    """Return whether `model_init_kwargs` selects float16."""
    return any(
        str(_init(given).get(n)).removeprefix("torch.") in ("float16", "half") for n in ("dtype", "torch_dtype")
    )


RULES: tuple[tuple[Broken, str], ...] = (  # predicate of a broken rule; its message, in which {c} is the config
    (
        lambda c: c.game_settings.random_fraction and c.players_of("conjecturer"),
        "`random_fraction` ({c.game_settings.random_fraction}) is for runs without a conjecturer; set "
        "conjecturer_players=0, or leave it at 0.",
    ),
    (
        lambda c: not 0 < c.importance_clip_low <= 1 <= c.importance_clip_high,
        "`importance_clip_low` ({c.importance_clip_low}) and `importance_clip_high` ({c.importance_clip_high}) must "
        "satisfy 0 < low <= 1 <= high; Allen and Ståblein use 0.5 and 2.",
    ),
    (
        lambda c: c.length_penalty_floor is not None and not c.length_penalty,
        "`length_penalty_floor` ({c.length_penalty_floor}) bounds a penalty that is not charged; set length_penalty "
        "too, or leave it unset.",
    ),
    (
        lambda c: c.overlong_on != "all" and (c.overlong != "replace" or not c.soft_overlong),
        "`overlong_on` ({c.overlong_on}) chooses among the samples that `overlong: replace` charges, and none is "
        "charged so; set overlong=replace and soft_overlong too, or leave it at all.",
    ),
    (
        lambda c: c.ddp_find_unused_parameters is False,
        "`ddp_find_unused_parameters` (False) must be True: a micro-batch holds one role, and DDP would wait for the "
        "other role's gradients; leave it unset.",
    ),
    (
        lambda c: c.gradient_checkpointing and _reentrant(c.gradient_checkpointing_kwargs),
        "`gradient_checkpointing_kwargs` ({c.gradient_checkpointing_kwargs}) must be non-reentrant: reentrant "
        "checkpointing fails with unused parameters under DDP; leave it unset.",
    ),
    (
        lambda c: c.mixed_adapters == "on" and c.policy_sharing != "lora",
        "`mixed_adapters` (on) is for players with an adapter each over one base, and policy_sharing is "
        "'{c.policy_sharing}'; set policy_sharing=lora, or leave it at auto.",
    ),
    (
        lambda c: c.num_iterations != 1,
        "`num_iterations` ({c.num_iterations}) must be 1: a sample is used for one step; `steps_per_round` cuts a "
        "round into several.",
    ),
    (
        lambda c: c.fp16 or getattr(c, "mixed_precision", None) == "fp16",
        "`fp16` (True) is not supported: a skipped step of its loss scaler looks like a collapse; use bf16 (or launch "
        "with --mixed_precision bf16).",
    ),
    (
        attrgetter("accelerator_config.gradient_accumulation_kwargs"),
        "`accelerator_config` (gradient_accumulation_kwargs) must not be set: a Trainer step is a round, whose "
        "optimizer steps are the trainer's own; leave it out.",
    ),
    (
        attrgetter("accelerator_config.split_batches"),
        "`accelerator_config` (split_batches) must be false: each process reads the anchors of the whole round; leave "
        "it out.",
    ),
    (
        lambda c: _half(c.model_init_kwargs),
        "`dtype` (float16) is not supported: small gradients and steps round to 0 in it, and answers fall apart after "
        "a few rounds; use bfloat16 or float32.",
    ),
    (
        lambda c: _init(c.model_init_kwargs).get("device_map") is not None,
        "`model_init_kwargs` (device_map) is not supported: the engine places the policies; leave it out, and spread "
        "a model that is too large for one GPU with accelerate_configs/zero3.yaml or fsdp2.yaml.",
    ),
    (
        lambda c: c.neftune_noise_alpha is not None,
        "`neftune_noise_alpha` ({c.neftune_noise_alpha}) would move the embeddings in sampling as in the loss, which "
        "then score other models; leave it unset (`countdown-selfplay sft` takes it).",
    ),
    (  # "loss" is what Transformers writes there, and no evaluation logs one
        lambda c: c.load_best_model_at_end and c.metric_for_best_model in (None, "loss"),
        "`load_best_model_at_end` (True) needs `metric_for_best_model`, such as eval_pass@1, and an eval_strategy.",
    ),
    (
        lambda c: c.save_strategy == "best" and c.metric_for_best_model is None,
        "`save_strategy` (best) needs `metric_for_best_model`, such as eval_pass@1, and an eval_strategy.",
    ),
    (
        lambda c: c.save_only_model and c.guard,
        "`save_only_model` (True) leaves the guard no state to restore; set guard=False or save_only_model=False.",
    ),
)
_BEFORE: tuple[tuple[Broken, str], ...] = (
    (
        lambda c: not c.trained_roles,
        "`roles` has no role that is trained: give one of them weights other than start.",
    ),
    (
        lambda c: c.gradient_accumulation_steps != 1,
        "`gradient_accumulation_steps` ({c.gradient_accumulation_steps}) must be 1: a Trainer step is a round, whose "
        "micro-batches follow from what there is to train on; leave it unset.",
    ),
    (
        lambda c: (
            c.steps_per_generation not in (None, c.steps_per_round)
            or (c.generation_batch_size is not None and c.steps_per_generation is None)
        ),
        "`steps_per_generation` ({c.steps_per_generation}) and `generation_batch_size` ({c.generation_batch_size}) "
        "cannot be set: a round generates once for all its optimizer steps; change problems_per_round, "
        "proposals_per_round or steps_per_round.",
    ),
)
"""Rules on fields from which TRL derives others."""
_UNSUPPORTED = ("use_liger_kernel", "sync_ref_model", "cast_lm_head_to_fp32", "remove_unused_columns")


def before_trl(config: JointSelfPlayConfig) -> None:
    """Check the rules that must hold before TRL derives its batch sizes from the fields."""
    check_reporters(config)
    check_kinds(config)
    check_players(config)
    check_rules(config, _BEFORE)
    outlast_servers(config)
    defaults = {f.name: f.default for f in dataclasses.fields(config)}
    for name, instead in _UNREAD.items():
        if getattr(config, name) != defaults[name]:
            raise ConfigError(
                f"`{name}` ({getattr(config, name)}) is not read by the joint trainer's losses; use {instead}."
            )


def after_trl(config: JointSelfPlayConfig) -> None:
    """Check the rules on fields that TRL leaves unchanged."""
    check_options(config)
    _ = config.trips, config.game_settings  # their values are checked as they are built
    check_rules(config, RULES)
    _check_allowed(config)
    check_settings(config)
    check_generation(config)
    check_fill(config)
    check_placebo(config)
    for name in _UNSUPPORTED:
        if getattr(config, name):
            raise ConfigError(f"`{name}` (True) is not supported by the joint trainer; leave it unset.")
    check_parts(config)
    if config.describes_domain:
        check_domain(config, None)
    check_sharing(config)
    check_guard_scope(config)


def check_domain(config: JointSelfPlayConfig, given: Any) -> Any:
    """Check that `given`, or if None the domain built from the config, fits the other settings, and return it."""
    if given is None:
        check_problems(config)
        given = domain_from(config)
    check_stops(config, given)
    return given


def check_rules(config: JointSelfPlayConfig, rules: tuple[tuple[Broken, str], ...], **more: Any) -> None:
    """Raise ConfigError for the first broken rule. more: further values for the messages."""
    for broken, sentence in rules:
        if broken(config):
            raise ConfigError(sentence.format(c=config, **more))


def check_roles(config: JointSelfPlayConfig) -> None:
    """Check all rules on roles again, once the roles of a game that was passed as an object are known."""
    check_kinds(config)
    check_players(config)
    check_settings(config)
    check_sharing(config)


def _check_allowed(config: JointSelfPlayConfig) -> None:
    """Check the names in `allow_changed`: a misspelt name would otherwise be reported only at the resume."""
    known = [*(f.name for f in dataclasses.fields(config)), *CountdownArguments.__dataclass_fields__, *PARTS]
    known += [f"roles.{kind}.{setting}" for kind in config.kinds for setting in FIELDS]
    for name in allowed_names(config.allow_changed):
        if name not in known:
            raise ConfigError(f"`allow_changed` names '{name}', which is not a setting.{suggestion(name, known)}")
        if plain_name(name) in NEVER:
            raise ConfigError(f"`allow_changed` names {name}, which cannot change in a resume; start a new run.")


def check_reporters(config: Any) -> None:
    """Check the names in `report_to`, which Transformers checks only after the models have loaded."""
    given = config.report_to
    known = [*INTEGRATION_TO_CALLBACK, "all", "none"]
    for name in [given] if isinstance(given, str) else given or []:
        if name not in known:
            raise ConfigError(f"`report_to` ({name}) must be one of {', '.join(known)}.{suggestion(name, known)}")
