"""Cross-field rules of JointSelfPlayConfig: each message names the field, the value, the rule and the cure."""

from __future__ import annotations

import dataclasses
import math
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

from ..domains import domain_from
from ..errors import ConfigError
from ..games import GAMES, game_class
from ..guides import check_guide, make_guide
from ..proposers import check_proposer, make_proposer
from ..registry import suggestion
from ..rewards.base import LARGEST_REWARD
from .changes import NEVER, PARTS, allowed_names, plain_name
from .game_checks import check_fill, check_placebo, check_problems, check_sequences, check_slots, check_stops
from .generation_checks import check_generation
from .guard_fields import trips_of
from .number_checks import check_numbers
from .players import field_of
from .role_checks import check_choices, check_guard_scope, check_kinds, check_players, check_settings, check_sharing
from .roles import FIELDS, FLAT
from .row_checks import check_demonstrations, check_samples_per_round

if TYPE_CHECKING:
    from .joint import JointSelfPlayConfig


def _fail(message: str) -> None:
    raise ConfigError(message)


def _at_least(config: JointSelfPlayConfig, name: str, low: float, meaning: str) -> None:
    value = getattr(config, name)
    if value is not None and not (math.isfinite(value) and value >= low):
        _fail(f"`{name}` ({value}) must be a finite number of at least {low}: {meaning}.")


def _share(config: JointSelfPlayConfig, name: str) -> None:
    value = getattr(config, name)
    if not 0.0 <= value <= 1.0:
        _fail(f"`{name}` ({value}) is a share and must lie in [0, 1].")


def before_trl(config: JointSelfPlayConfig) -> None:
    """Rules that must hold before TRL derives its batch sizes from the fields."""
    check_numbers(config)
    check_reporters(config)
    check_kinds(config)
    check_players(config)
    _check_step(config)
    _check_loader(config)
    _check_unread(config)


def _check_step(config: JointSelfPlayConfig) -> None:
    """What TRL would derive a round from is derived from the roles."""
    _at_least(config, "steps_per_round", 1, "optimizer steps")
    trained = [s for s in config.all_roles.values() if s.trained]
    if not trained:
        _fail("`roles` has no role that is trained: give one of them weights other than start.")
    derived = sum(s.trained_micro_batches for s in trained)
    counts = Counter(s.kind for s in trained)
    named = {kind: field_of(config, kind, "micro_batches") for kind in dict.fromkeys((*FLAT, *counts))}
    parts = [f"{counts[k]} x {name}" if counts[k] > 1 else name for k, name in named.items() if k in config._kinds]
    if config.gradient_accumulation_steps not in (None, derived):
        _fail(
            f"`gradient_accumulation_steps` ({config.gradient_accumulation_steps}) is derived as {' + '.join(parts)} "
            f"({derived}); leave it unset and change those."
        )
    if config.steps_per_generation not in (None, derived * config.steps_per_round) or (
        config.generation_batch_size is not None and config.steps_per_generation is None
    ):
        _fail(
            f"`steps_per_generation` ({config.steps_per_generation}) and `generation_batch_size` "
            f"({config.generation_batch_size}) cannot be set: "
            f"a round generates once for all its {derived} micro-batches; "
            f"change {', '.join(parts)} or per_device_train_batch_size."
        )


def _check_loader(config: JointSelfPlayConfig) -> None:
    """TRL's data loader draws as many anchors as the trained players have samples, at most."""
    prover = config.solver
    trained = [s for s in config.all_roles.values() if s.trained]
    drawn = config.per_device_train_batch_size * sum(s.trained_micro_batches for s in trained)
    slots = config.per_device_train_batch_size * prover.micro_batches // prover.num_generations
    if prover.samples_per_round is not None:
        slots = -(-prover.samples_per_round // prover.num_generations // config.steps_per_round)
    name = field_of(config, prover.kind, "micro_batches")
    if drawn < 2:
        _fail(
            f"`per_device_train_batch_size` ({config.per_device_train_batch_size}) and `{name}` "
            f"({prover.micro_batches}) leave one sample in a round, and TRL needs two; raise one of them."
        )
    if drawn < slots:
        _fail(
            f"`{name}` ({prover.micro_batches}) needs {slots} problems a round per process, and the {drawn} samples "
            "of the roles that are trained draw fewer; lower it, or raise theirs."
        )


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


def _check_unread(config: JointSelfPlayConfig) -> None:
    """Rule 15 of the design: refuse what would be skipped."""
    defaults = {f.name: f.default for f in dataclasses.fields(config)}
    for name, instead in _UNREAD.items():
        value = getattr(config, name)
        if value != defaults[name]:
            _fail(f"`{name}` ({value}) is not read by the joint trainer's losses; use {instead}.")


def after_trl(config: JointSelfPlayConfig) -> None:
    """Rules on fields that TRL leaves as they are."""
    for name in ("anchor_fraction", "easy_above", "hard_below", "guard_min_parseable_rate", "soft_overlong"):
        _share(config, name)
    for name in ("guard_min_solve_rate", "guard_max_solve_rate", "random_fraction"):
        _share(config, name)
    if config.random_fraction and config.players_of("conjecturer"):
        _fail(
            f"`random_fraction` ({config.random_fraction}) is for runs without a conjecturer; set "
            "conjecturer_micro_batches=0, or leave it at 0."
        )
    if not 0 < config.importance_clip_low <= 1 <= config.importance_clip_high:
        _fail(
            f"`importance_clip_low` ({config.importance_clip_low}) and `importance_clip_high` "
            f"({config.importance_clip_high}) must satisfy 0 < low <= 1 <= high; Allen and Ståblein use 0.5 and 2."
        )
    check_choices(config)
    _check_allowed(config)
    check_settings(config)
    _check_frontier(config)
    for name in ("invalid_reward", "unplayed_reward"):
        value = getattr(config, name)
        if value is not None and not abs(value) <= LARGEST_REWARD:
            _fail(f"`{name}` ({value}) must be finite, at most {LARGEST_REWARD:g} in size; Allen and Ståblein use 0.")
    _at_least(config, "samples_per_log", 0, "0 writes none")
    _at_least(config, "format_probe", 0, "0 plays no probe")
    _at_least(config, "length_penalty", 0.0, "it is subtracted from the reward")
    if config.length_penalty_floor is not None and not config.length_penalty:
        _fail(
            f"`length_penalty_floor` ({config.length_penalty_floor}) bounds a penalty that is not charged; set "
            "length_penalty too, or leave it unset."
        )
    _at_least(config, "novelty_window", 0, "rounds to look back")
    _at_least(config, "guard_window", 1, "rounds")
    _at_least(config, "export_every", 0, "rounds; 0 exports none")
    _at_least(config, "guard_max_rollbacks", 0, "0 stops at the first trip")
    _at_least(config, "guard_max_starved_rounds", 1, "rounds")
    trips_of(config.guard_trips)
    if config.truncate_multiple is not None:
        _at_least(config, "truncate_multiple", 1, "admitted proposals are cut down to a multiple of it")
    if config.ddp_find_unused_parameters is False:
        _fail(
            "`ddp_find_unused_parameters` (False) must be True: a micro-batch holds one role, and DDP would wait for "
            "the other role's gradients; leave it unset."
        )
    if config.gradient_checkpointing and _reentrant(config):
        _fail(
            "`gradient_checkpointing_kwargs` ({'use_reentrant': True}) must be non-reentrant: reentrant checkpointing "
            "fails with unused parameters under DDP; leave it unset."
        )
    if config.num_iterations != 1:
        _fail(
            f"`num_iterations` ({config.num_iterations}) must be 1: a sample is used for one step; `steps_per_round` "
            "cuts a round into several."
        )
    if config.fp16:
        _fail("`fp16` (True) is not supported: a skipped step of its loss scaler looks like a collapse; use bf16.")
    by = config.metric_for_best_model  # "loss" is what Transformers writes there, and no evaluation logs one
    if (config.load_best_model_at_end and by in (None, "loss")) or (config.save_strategy == "best" and by is None):
        name, value = ("load_best_model_at_end", True) if config.load_best_model_at_end else ("save_strategy", "best")
        _fail(f"`{name}` ({value}) needs `metric_for_best_model`, such as eval_pass@1, and an eval_strategy.")
    if config.save_only_model and config.guard:
        _fail(
            "`save_only_model` (True) leaves the guard no state to restore; set guard=False or save_only_model=False."
        )
    check_generation(config)
    check_samples_per_round(config)
    check_demonstrations(config)
    check_fill(config)
    check_placebo(config)
    check_sequences(config)
    for name in ("use_liger_kernel", "sync_ref_model", "cast_lm_head_to_fp32", "remove_unused_columns"):
        if getattr(config, name):
            _fail(f"`{name}` (True) is not supported by the joint trainer; leave it unset.")
    _check_names(config)
    check_problems(config)
    check_stops(config)
    check_sharing(config)
    check_guard_scope(config)


def _check_frontier(config: JointSelfPlayConfig) -> None:
    bounds = {name: getattr(config, name) for name in ("frontier_low", "frontier_high")}
    for name, value in bounds.items():
        if value is not None:
            _share(config, name)
    low, high = bounds.values()
    if low is not None and high is not None and low > high:
        _fail(
            f"`frontier_low` ({low}) and `frontier_high` ({high}) must satisfy low <= high; Multimodal LLM Self-Play "
            f"uses 0.1 and 0.7."
        )
    if config.prover_trains_on == "frontier" and low is None and high is None:
        _fail(
            "`prover_trains_on` (frontier) needs `frontier_low` or `frontier_high`; Multimodal LLM Self-Play has 0.1 "
            "and 0.7."
        )


def _check_allowed(config: JointSelfPlayConfig) -> None:
    """A name that is misspelt would allow nothing, and be found out minutes later."""
    known = [*(f.name for f in dataclasses.fields(config)), *PARTS]
    known += [f"roles.{kind}.{setting}" for kind in config._kinds for setting in FIELDS]
    for name in allowed_names(config.allow_changed):
        if name not in known:
            _fail(f"`allow_changed` names '{name}', which is not a setting.{suggestion(name, known)}")
        if plain_name(name) in NEVER:
            _fail(f"`allow_changed` names {name}, which cannot change in a resume; start a new run.")


def check_reporters(config: Any) -> None:
    """Names in `report_to` that Transformers does not know: it says so when the models have loaded."""
    given = config.report_to
    known = [*INTEGRATION_TO_CALLBACK, "all", "none"]
    for name in [given] if isinstance(given, str) else given or []:
        if name not in known:
            _fail(f"`report_to` ({name}) must be one of {', '.join(known)}.{suggestion(name, known)}")


def check_run(config: Any) -> None:
    """What can be judged only where the run is, for a dry run on a laptop plans for another machine: are the packages
    of `report_to` installed, and can files be written into `output_dir`?"""
    for name in config.report_to:
        try:
            INTEGRATION_TO_CALLBACK[name]()
        except (RuntimeError, ImportError, ValueError) as error:  # it looks for its package when it is made
            raise ConfigError(
                f"`report_to` ({name}) cannot be used here: {error} Or pass --report_to none."
            ) from error
    check_output(config.output_dir)
    if config.resume_from_checkpoint == "":  # an unset variable of a shell would start anew, silently
        _fail("`resume_from_checkpoint` ('') must be true, auto or a checkpoint's folder; leave it unset to start.")


def check_output(folder: str | None) -> None:
    """Can files be written there?"""
    if folder == "":
        _fail("`output_dir` ('') must name a folder; leave it unset for the default.")
    if folder is not None and os.path.lexists(folder) and not Path(folder).is_dir():
        _fail(f"`output_dir` ({folder}) is a file, or a link that leads nowhere; name a folder.")
    path = Path(folder or ".").absolute()
    there = next(p for p in (path, *path.parents) if p.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        why = "is not writable" if there.is_dir() else "is a file"
        _fail(f"`output_dir` ({folder}) must be a folder that can be made and written to; {there} {why}.")


def _check_names(config: JointSelfPlayConfig) -> None:
    from ..countdown import CONJECTURER_PROMPTS, PROVER_PROMPTS
    from ..rewards import make_conjecturer_reward

    PROVER_PROMPTS[config.prover_prompt]
    CONJECTURER_PROMPTS[config.conjecturer_prompt]
    make_conjecturer_reward(config.conjecturer_reward, config.reward_arguments)
    _check_game(config)
    if config.proposer is not None:
        proposer = make_proposer(config.proposer, config.proposer_arguments)
        check_proposer(f"`proposer` ({config.proposer})", proposer, config.players_by_kind, domain_from(config))
        check_slots(config, proposer)
    elif config.proposer_arguments:
        _fail(
            f"`proposer_kwargs` ({config.proposer_arguments}) has no `proposer` to go to; name one, or leave it unset."
        )
    guide = None if config.guide is None else make_guide(config.guide, config.guide_arguments)
    if config.guide is None and config.guide_arguments:
        _fail(f"`guide_kwargs` ({config.guide_arguments}) has no `guide` to go to; name one, or leave it unset.")
    if "guide" in config._optional:
        check_guide(f"`guide` ({config.guide})", guide, config.players_by_kind)


def _check_game(config: JointSelfPlayConfig) -> None:
    """Does the game take its arguments?"""
    given = config.game_arguments
    if given and config.game is None:
        _fail(f"`game_kwargs` ({given}) is for a game that `game` names, and it is None; pass them to your object.")
    if config.game is None:
        return
    if game_class(config.game).from_config is None:
        GAMES.make(config.game, given)
    elif given:
        _fail(
            f"`game_kwargs` ({given}) is not read by `game` ({config.game}), whose settings are fields of the "
            "configuration; leave it unset."
        )


def check_roles(config: JointSelfPlayConfig) -> None:
    """All rules on roles, for a game whose kinds are known only now."""
    check_kinds(config)
    check_players(config)
    _check_loader(config)
    check_settings(config)
    check_sharing(config)


def _reentrant(config: JointSelfPlayConfig) -> bool:
    given = config.gradient_checkpointing_kwargs
    return isinstance(given, dict) and bool(given.get("use_reentrant"))
