"""Rules on the parts of a run: domain, game, proposer and guide must accept their arguments and fit each other, and
the generation backend must read the settings that are given for it."""

from __future__ import annotations

import dataclasses
import logging
import math
from typing import TYPE_CHECKING, Any

from ..asking import check_generation_kwargs
from ..countdown.exact.solver import MAX_OPERANDS
from ..countdown.problem import MAX_NUMBERS
from ..curriculum.admission import batch_of_all
from ..domains import domain_from
from ..errors import ConfigError
from ..games import GAMES
from ..guides import GUIDES, check_guide
from ..options import is_whole, json_object
from ..proposers import check_proposer, make_proposer
from ..rewards import make_conjecturer_reward
from .recipes import GAME

if TYPE_CHECKING:
    from .joint import JointSelfPlayConfig

logger = logging.getLogger(__name__)

_READ_BY = {  # the settings that one backend alone reads
    "generate": ("generation_rows",),
    "vllm_server": (
        *("vllm_server_base_url", "vllm_server_host", "vllm_server_port", "vllm_server_timeout", "vllm_group_port"),
        *("vllm_adapter_dir", "vllm_request_timeout", "vllm_request_retries"),
    ),
    "vllm": (
        *("vllm_tensor_parallel_size", "vllm_enable_sleep_mode", "vllm_max_model_length", "vllm_model_impl"),
        "vllm_gpu_memory_utilization",
    ),
}
_ENGINE_OURS = {  # arguments of vLLM's LLM that follow from other fields
    "model": "the model that the trainer is given",
    "enable_lora": "policy_sharing",
    "max_loras": "policy_sharing",
    "max_lora_rank": "the peft_config",
    "logprobs_mode": "nothing: the ratio needs the log-probs of the distribution that was sampled from",
    "tensor_parallel_size": "vllm_tensor_parallel_size",
    "gpu_memory_utilization": "vllm_gpu_memory_utilization",
    "max_model_len": "vllm_max_model_length",
    "enable_sleep_mode": "vllm_enable_sleep_mode",
}
CORRECTION_MODES = ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask")
SOLVED = ("mutation", "ucb", "thompson", "factorized")
"""Proposers whose candidates and features come from the exact solver."""


def check_parts(config: JointSelfPlayConfig) -> None:
    """Check the generation backend and the slots of a round; build every named part with its arguments and check that
    it fits the roles."""
    check_generation(config)
    _check_fill(config)
    _check_placebo(config)
    make_conjecturer_reward(config.conjecturer_reward, config.reward_arguments)
    if config.game is None and config.game_arguments:
        raise ConfigError(
            f"`game_kwargs` ({config.game_arguments}) is for a game that `game` names, and it is None; pass them to "
            "your object."
        )
    if config.from_settings and config.game_arguments:
        raise ConfigError(
            f"`game_kwargs` ({config.game_arguments}) is for other games: the arguments of {config.game} are fields, "
            "such as anchor_fraction; set those."
        )
    for field in dataclasses.fields(config) if not config.from_settings else ():
        if field.name in GAME and (value := getattr(config, field.name)) != field.default:
            played = "your object" if config.game is None else f"'{config.game}'"
            raise ConfigError(
                f"`{field.name}` ({value}) is a setting of propose_and_solve, and the game is {played}; leave it out."
            )
    if config.game is not None and not config.from_settings:
        GAMES.make(config.game, config.game_arguments)
    for part, given in (("proposer", config.proposer_arguments), ("guide", config.guide_arguments)):
        if given and getattr(config, part) is None:
            raise ConfigError(f"`{part}_kwargs` ({given}) has no `{part}` to go to; name one, or leave it unset.")
    if config.proposer is not None:
        proposer = make_proposer(config.proposer, config.proposer_arguments)
        domain = domain_from(config) if config.describes_domain else None
        check_proposer(f"`proposer` ({config.proposer})", proposer, config.players_by_kind, domain)
        _check_slots(config, proposer)
    guide = None if config.guide is None else GUIDES.make(config.guide, config.guide_arguments)
    if "guide" in config.optional:
        check_guide(f"`guide` ({config.guide})", guide, config.players_by_kind)


def _check_fill(config: JointSelfPlayConfig) -> None:
    """Check that proposals have slots, and enough of them if every proposal must be played (fill=keep_all)."""
    proposing, settings = config.players_of("conjecturer"), config.game_settings
    slots, fraction = config.problems_per_round, settings.anchor_fraction
    if not proposing and (config.proposer is None or fraction < 1):
        return
    if config.anchor_slots >= slots:
        raise ConfigError(
            f"`anchor_fraction` ({fraction}) of {slots} slots leaves the conjecturer none; lower it, or set "
            "conjecturer_players=0 for plain RL on the anchors."
        )
    if settings.fill == "none" and fraction:
        raise ConfigError(
            f"`anchor_fraction` ({fraction}) is a share of the data set's problems, and fill=none plays none of them; "
            "set it to 0, or fill to anchor."
        )
    if settings.fill != "keep_all":
        return
    multiple, proposals = settings.truncate_multiple or 1, config.proposals_per_round * len(proposing)
    most = batch_of_all(proposals, fraction, multiple)
    if most > slots:
        raise ConfigError(
            f"`problems_per_round` ({slots}) is less than the {most} problems that fill=keep_all may play: "
            f"{proposals} proposals, anchor_fraction {fraction}, padded to a multiple of {multiple}; raise "
            f"it to {most}, or lower proposals_per_round."
        )


def _check_placebo(config: JointSelfPlayConfig) -> None:
    """Check that a conjecturer is trained if `shuffled_rewards` is set."""
    players = config.players_of("conjecturer")
    if config.game_settings.shuffled_rewards and not any(config.all_roles[player].trained for player in players):
        why = "its weights are frozen" if players else "there is none"
        raise ConfigError(
            f"`shuffled_rewards` (True) is the placebo of a conjecturer that is trained, and in this run {why}; train "
            "one, or leave it unset."
        )


def _check_slots(config: JointSelfPlayConfig, proposer: Any) -> None:
    """Check that a proposer that fills all slots leaves none to anchors, and that its plan ends by `max_steps`."""
    fraction = config.game_settings.anchor_fraction
    if proposer.fills_slots and fraction:
        raise ConfigError(
            f"`proposer` ({config.proposer}) fills every slot of a round, and `anchor_fraction` ({fraction}) leaves "
            "it fewer; set anchor_fraction to 0."
        )
    if proposer.planned_rounds > config.max_steps > 0:
        raise ConfigError(
            f"`rounds` of the proposer ({proposer.planned_rounds}) is the length of its plan, and the run ends after "
            f"`max_steps` ({config.max_steps}), before the plan does; give both the same."
        )


def check_domain(config: JointSelfPlayConfig, given: Any) -> Any:
    """Check that `given`, or if None the domain built from the config, fits the other settings, and return it."""
    if given is None:
        _check_problems(config)
        given = domain_from(config)
    _check_stops(config, given)
    return given


def _check_problems(config: JointSelfPlayConfig) -> None:
    """Check the ranges of Countdown's problems."""
    if config.domain != "countdown":
        return
    countdown = config.countdown
    most = MAX_NUMBERS if config.answers == "moves" else MAX_OPERANDS  # no solver is asked in moves
    if not countdown.operands or not all(is_whole(k, 2) and k <= most for k in countdown.operands):
        raise ConfigError(
            f"`operands` ({countdown.operands}) must list operand counts from 2 to {most}, such as [3, 4]."
        )
    if config.proposer in SOLVED and max(countdown.operands) > MAX_OPERANDS:
        raise ConfigError(
            f"`proposer` ({config.proposer}) chooses targets by the exact solver's list of all solutions, "
            f"which ends at {MAX_OPERANDS} numbers, and `operands` go to {max(countdown.operands)}; in moves use "
            "ucb_rungs or thompson_rungs, which need no solver, or fewer numbers."
        )
    for name in ("number", "target"):
        low, high = getattr(countdown, f"{name}_low"), getattr(countdown, f"{name}_high")
        if not 1 <= low <= high:
            raise ConfigError(f"`{name}_low` ({low}) and `{name}_high` ({high}) must satisfy 1 <= low <= high.")


def _check_stops(config: JointSelfPlayConfig, domain: Any) -> None:
    """Check that the stop strings of prover and conjecturer do not cut off the answer."""
    for kind in ("prover", "conjecturer"):
        stops = config.role(kind).stop if config.players_of(kind) else None
        cut = domain.cut_by(kind, stops) if stops else None
        if cut is not None:
            raise ConfigError(
                f"`{config.field_of(kind, 'stop')}` ({list(stops or ())}) cuts what the prompt asks for, {cut!r}, "
                "before it can be read; use the text that ends it, such as </answer> or </problem>, or leave it unset."
            )


def check_generation(config: JointSelfPlayConfig) -> None:
    """Raise ConfigError for a setting that the backend ignores; warn of sampling settings that bias the gradient."""
    defaults = {f.name: f.default for f in dataclasses.fields(config)}
    url, backend = "vllm_server_base_url", config.generation_backend
    given: list[tuple[str, Any, str]] = []
    for reader, names in _READ_BY.items():
        given += [(name, value, reader) for name in names if (value := getattr(config, name)) != defaults[name]]
    for kind in config.configured_kinds:
        if (value := config.given(kind, url)) is not None:
            given.append((config.field_of(kind, url), value, "vllm_server"))
    for name, value, reader in given:
        if backend != reader:
            raise ConfigError(
                f"`{name}` ({value}) is read under generation_backend={reader} only, and `generation_backend` is "
                f"{backend}; change that or leave it unset."
            )
    if config.vllm_importance_sampling_mode not in CORRECTION_MODES:
        raise ConfigError(
            f"`vllm_importance_sampling_mode` ({config.vllm_importance_sampling_mode!r}) must be one of "
            f"{', '.join(CORRECTION_MODES)}."
        )
    engine_arguments(config)
    check_generation_kwargs(config.generation_kwargs, config.generation_backend)
    _warn_truncated_sampling(config)


def outlast_servers(config: JointSelfPlayConfig) -> None:
    """Increase the default `ddp_timeout` beyond the time that a vLLM server may take, since other processes wait in a
    collective; raise ConfigError if the user set a shorter one. Call it before the process group is created."""
    if config.generation_backend != "vllm_server" or config.ddp_timeout > (longest := config.vllm_patience):
        return
    usual = next(f.default for f in dataclasses.fields(config) if f.name == "ddp_timeout")
    if config.ddp_timeout != usual:
        raise ConfigError(
            f"`ddp_timeout` ({config.ddp_timeout}) must be longer than a vLLM server may be waited for, {longest:.0f} "
            "s (vllm_request_timeout x (vllm_request_retries + 1) and the pauses between), or the other processes end "
            "with an error of NCCL's; raise it or leave it unset, or lower vllm_request_retries."
        )
    config.ddp_timeout = math.ceil(longest) + usual


def engine_arguments(config: JointSelfPlayConfig) -> dict[str, Any]:
    """Parse `vllm_engine_kwargs` into a dict; dtype defaults to the precision of the loss. Raises ConfigError if it is
    set under a backend other than vllm, and for an argument that follows from another field."""
    given = config.vllm_engine_kwargs
    arguments = json_object("vllm_engine_kwargs", given, '{"enforce_eager": true}')
    if arguments and config.generation_backend != "vllm":
        raise ConfigError(
            f"`vllm_engine_kwargs` ({given}) is read under generation_backend=vllm only, and `generation_backend` is "
            f"{config.generation_backend}; a server gets its options when it is started."
        )
    for name, instead in _ENGINE_OURS.items():
        if name in arguments:
            raise ConfigError(
                f"`vllm_engine_kwargs` must not hold {name} ({arguments[name]}): it follows from {instead}."
            )
    return {"dtype": "bfloat16" if config.bf16 else "float32", **arguments}


def _warn_truncated_sampling(config: JointSelfPlayConfig) -> None:
    for role in config.configured_kinds:
        settings = config.role(role)
        cut = [f"top_p={settings.top_p:g}"] if settings.top_p < 1 else []
        cut += [f"top_k={settings.top_k}"] if settings.top_k > 0 else []
        cut += cutting(config)
        if cut and settings.trained:
            logger.warning(
                f"The {role} samples with {' and '.join(cut)} from a cut distribution, and the loss takes its ratio "
                "to the full one: the gradient is biased. Leave them at their defaults, or know that it is."
            )


def cutting(config: JointSelfPlayConfig) -> list[str]:
    """Return the settings common to all roles that change the sampling distribution, as "name=value" texts."""
    settings = {"min_p": config.min_p, "repetition_penalty": config.repetition_penalty}
    settings |= json_object("generation_kwargs", config.generation_kwargs)
    neutral = {"min_p": (None, 0), "repetition_penalty": (1,)}
    return [f"{name}={value}" for name, value in settings.items() if value not in neutral.get(name, (None,))]
