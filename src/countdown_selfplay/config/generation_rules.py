"""Rules on the generation backend: fields that it does not read, and sampling settings that bias the gradient."""

from __future__ import annotations

import dataclasses
import logging
import math
from typing import TYPE_CHECKING, Any

from ..asking import check_generation_kwargs
from ..errors import ConfigError
from ..options import json_object

if TYPE_CHECKING:
    from .joint import JointSelfPlayConfig

logger = logging.getLogger(__name__)

_DERIVED = {  # TRL's own switches -> what to set instead
    "use_vllm": "generation_backend=vllm (in the training process) or generation_backend=vllm_server",
    "vllm_mode": "generation_backend=vllm (colocate) or generation_backend=vllm_server (server)",
    "use_transformers_continuous_batching": "generation_backend=generate or vllm",
    "transformers_continuous_batching_config": "generation_backend=generate or vllm",
    "vllm_structured_outputs_regex": "another prompt: one pattern for all roles would bias every sampling ratio",
}
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


def check_generation(config: JointSelfPlayConfig) -> None:
    """Raise ConfigError for a setting that the backend ignores; warn of sampling settings that bias the gradient."""
    defaults = {f.name: f.default for f in dataclasses.fields(config)}
    for name, instead in _DERIVED.items():
        if getattr(config, name) != defaults[name]:
            raise ConfigError(
                f"`{name}` ({getattr(config, name)}) is not read by the joint trainer, which samples in turns for "
                f"each role; use {instead}."
            )
    for backend, name in ((backend, name) for backend, names in _READ_BY.items() for name in names):
        if config.generation_backend != backend and (value := getattr(config, name)) != defaults[name]:
            raise ConfigError(
                f"`{name}` ({value}) is read under generation_backend={backend} only, and "
                f"`generation_backend` is {config.generation_backend}; change that or leave it unset."
            )
    for kind in config.configured_kinds:
        url = config.given(kind, "vllm_server_base_url")
        if url is not None and config.generation_backend != "vllm_server":
            raise ConfigError(
                f"`{config.field_of(kind, 'vllm_server_base_url')}` ({url}) is read under "
                "generation_backend=vllm_server only, and `generation_backend` is "
                f"{config.generation_backend}; change that or leave it unset."
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
