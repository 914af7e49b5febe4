"""Private names of TRL and of Transformers' Trainer that this library uses, all in one file.

tests/contract compares the tables below with the pinned TRL, and `_trl_check.py` with the installed one when a
trainer is built. No code is copied: methods are overridden or called, attributes read or swapped.
"""

import atexit
import importlib
import os
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import GenerationConfig

from .asking import generation_settings

# TRL 1.16 uses three names of a model that transformers renamed; nothing a user could change.
_RENAMED = "`(is_gradient_checkpointing|gradient_checkpointing_(en|dis)able)` is deprecated"
warnings.filterwarnings("ignore", message=_RENAMED, category=FutureWarning)

OLDEST = (1, 16)
"""Oldest version of TRL whose behaviour was tested, as in pyproject.toml."""
OVERRIDDEN = {
    "_prepare_inputs": ("self", "generation_batch"),
    "_calculate_rewards": ("self", "inputs", "prompts", "completions", "completion_ids_list"),
    "_save_checkpoint": ("self", "model", "trial"),
}
"""Methods of GRPOTrainer that are overridden, with all their parameters."""
CALLED = {
    "_generate_and_score_completions": ("self", "inputs"),
    "_get_per_token_logps_and_entropies": (
        *("self", "model", "input_ids", "attention_mask", "logits_to_keep", "batch_size", "compute_entropy"),
    ),
}
"""Methods of GRPOTrainer that are called, with their first parameters; further ones may follow."""
IMPORTED = {
    "trl.trainer.utils.add_fused_lm_head": ("model", "temperature", "outputs"),
    "trl.models.prepare_deepspeed": ("model", "accelerator"),
    "trl.models.prepare_fsdp": ("model", "accelerator"),
    "trl.models.unwrap_model_for_generation": ("model", "accelerator", "gather_deepspeed3_params"),
    "trl.trainer.grpo_trainer.unwrap_model_for_generation": ("model", "accelerator"),
    "trl.trainer.grpo_trainer.disable_gradient_checkpointing": ("model",),
    "trl.trainer.grpo_trainer.pad": ("tensors", "padding_value", "padding_side", "pad_to_multiple_of"),
    "trl.import_utils.is_vllm_available": (),
    "trl.generation.vllm_generation.VLLMGeneration": ("model", "accelerator", "processing_class", "mode"),
}
"""Imports from inside TRL, with their required parameters."""
ATTRIBUTES = (
    *("_metrics", "_logs", "num_generations"),
    *("eos_token_ids", "generation_config", "generation_kwargs"),
)
SAMPLING_SWITCHES = ("use_vllm", "vllm_generation", "vllm_importance_sampling_correction", "_last_loaded_step")
COMPLETION_LOGS = ("images", "prompt", "completion", "rewards", "advantages", "extra")
ROLLOUT_KEYS = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "advantages", "num_items_in_batch")
"""Keys of the result of `_generate_and_score_completions`."""
LOSS_SINCE_LOG = ("_tr_loss", "_total_loss_scalar", "_globalstep_last_logged")
COMPILED_BY = ("ACCELERATE_DYNAMO_BACKEND", "ACCELERATE_DYNAMO_MODE")
"""Environment variables by which TrainingArguments makes accelerate compile."""
RESUMED_BY = "_load_from_checkpoint"
"""Method of Transformers' Trainer that loads a checkpoint; LOSS_SINCE_LOG are attributes of the Trainer."""


def inference_copy(model: Any, accelerator: Any, sharded_by: str) -> Any:
    """Prepare a frozen model for inference under the engine `sharded_by` (deepspeed or fsdp) and return it."""
    from trl.models import prepare_deepspeed, prepare_fsdp

    return {"deepspeed": prepare_deepspeed, "fsdp": prepare_fsdp}[sharded_by](model, accelerator)


def whole_for_generation(wrapped: Any, accelerator: Any, gather: bool) -> Any:
    """Return TRL's context manager for sampling. `gather`: under ZeRO-3, gather all weights for the block and remove
    the hooks that would gather each layer's weights in every forward pass. All processes must enter it together."""
    from trl.models import unwrap_model_for_generation

    return unwrap_model_for_generation(wrapped, accelerator, gather_deepspeed3_params=gather)


def patch_lm_head(model: Any, temperature: float, top1: bool = False) -> None:
    """Patch a causal LM with TRL's fused head, which returns log-probs and entropies at `temperature`. `top1`: the
    head also returns whether each token is the most likely one."""
    from trl.trainer.utils import add_fused_lm_head

    add_fused_lm_head(model, temperature=temperature, outputs=("log_probs", "entropy", *(["is_top1"] * top1)))


TILE = "_CHUNKED_LOGPROB_CHUNK_SIZE"


@contextmanager
def tile_of(vocabulary: int) -> Iterator[None]:
    """Limit the tiles of TRL's fused head to `vocabulary` columns inside the block. Without a limit, tiles are views
    of a buffer of TILE (32,768) columns, so that on a CPU each row of a small vocabulary touches separate pages of
    memory. Does nothing if TRL has no TILE."""
    from trl.trainer import utils

    with swapped(utils, {TILE: min(vocabulary, getattr(utils, TILE))} if hasattr(utils, TILE) else {}):
        yield


@contextmanager
def swapped(target: Any, values: Mapping[str, Any]) -> Iterator[None]:
    """Set attributes of `target` inside the block and restore them afterwards; absent ones are left as None."""
    kept = {name: getattr(target, name, None) for name in values}
    for name, value in values.items():
        setattr(target, name, value)
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(target, name, value)


@contextmanager
def quick_turn(module: Any, bare: bool) -> Iterator[None]:
    """Speed up TRL's sampling from `module` inside the block: pad rows in one call, and skip TRL's contexts that
    unwrap the model, if it is `bare` (no engine wraps it) and does not use gradient checkpointing."""
    trainer = importlib.import_module("trl.trainer.grpo_trainer")
    stock = trainer.pad

    def pad(tensors: Any, padding_value: int = 0, padding_side: str = "right", pad_to_multiple_of: Any = None) -> Any:
        if tensors[0].dim() != 1 or pad_to_multiple_of is not None:
            return stock(tensors, padding_value, padding_side, pad_to_multiple_of)
        return pad_sequence(tensors, True, padding_value, padding_side)

    given: dict[str, Any] = {"pad": pad}
    if bare and not module.is_gradient_checkpointing:
        given["unwrap_model_for_generation"] = lambda model, *args, **kwargs: nullcontext(model)
        given["disable_gradient_checkpointing"] = lambda *args, **kwargs: nullcontext()
    with swapped(trainer, given):
        yield


@contextmanager
def trl_defaults(args: Any) -> Iterator[None]:
    """Hide the settings that this library handles while GRPOTrainer.__init__ runs.

    Settings:
        beta: with beta > 0 TRL would reload a reference from the model's path; here it is the initial weights.
        model_init_kwargs: the models are already built.
        entropy_coef, use_adaptive_entropy: the bonus is per role.
        torch_compile: accelerate would compile the whole module for each length; policies/compiled.py
          compiles single layers.
        gradient_checkpointing_kwargs: for an adapter under ZeRO-3 TRL sets use_reentrant=True, and
          reentrant checkpointing fails with several roles in one step; without it DeepSpeed 0.19 trains
          adapters correctly (tests/distributed).
    """
    hidden: dict[str, Any] = {"beta": 0.0, "entropy_coef": 0.0, "use_adaptive_entropy": False}
    hidden |= {"model_init_kwargs": None, "gradient_checkpointing_kwargs": None}
    if args.torch_compile:
        hidden |= {"torch_compile": False, "torch_compile_backend": None, "torch_compile_mode": None}
        for name in COMPILED_BY:
            os.environ.pop(name, None)
    with swapped(args, hidden):
        yield


def sampling_overrides(
    plain: dict[str, Any], ends: list[int], sampling: Mapping[str, Any], rows: int
) -> dict[str, Any]:
    """Return the trainer's sampling attributes for a role, as {attribute: value}. `plain`: TRL's generation_kwargs.
    `ends`: ids of the tokens that end a completion. `sampling`: the role's sampling settings. `rows`: maximum number
    of rows per call of `generate`, set as `call_rows` of the generation config."""
    kwargs = {**plain, **generation_settings(sampling, ends, plain["pad_token_id"])}
    config = GenerationConfig(**kwargs, disable_compile=True, call_rows=rows)
    return {"generation_kwargs": kwargs, "generation_config": config}


def empty_logs() -> dict[str, Any]:
    """Return an empty `_logs`, in which TRL collects completions for `log_completions`, with unbounded lists."""
    return {name: defaultdict(list) if name in ("rewards", "extra") else [] for name in COMPLETION_LOGS}


def vllm_overrides(generation: Any, step: int) -> dict[str, Any]:
    """Return the trainer's attributes for sampling through `generation`, an object with VLLMGeneration's `generate`.
    `step`: the trainer's step, in which TRL then pushes no weights. TRL's importance-sampling correction is off
    because it costs a second forward pass: in a round of one step the loss computes the same log-probs, and with more
    steps TRL computes them in any case."""
    return {
        "use_vllm": True,
        "vllm_generation": generation,
        "vllm_importance_sampling_correction": False,
        "_last_loaded_step": step,
    }


def vllm_installed() -> bool:
    from trl.import_utils import is_vllm_available

    return bool(is_vllm_available())


def colocated_vllm(
    args: Any, accelerator: Any, tokenizer: Any, model: Any, wrap: Callable[[Any], Any], engine: dict[str, Any]
) -> Any:
    """Build TRL's VLLMGeneration for `model`, with the engine in this process. `engine`: arguments of vLLM's LLM that
    override those of TRL. `wrap`: function that returns the object which the trainer uses in place of the LLM."""
    from trl.generation import vllm_generation as module

    llm = module.LLM
    with swapped(module, {"LLM": lambda **given: wrap(llm(**{**given, **engine}))}):
        return module.VLLMGeneration(
            model=model,
            accelerator=accelerator,
            processing_class=tokenizer,
            mode="colocate",
            tensor_parallel_size=args.vllm_tensor_parallel_size,
            gpu_memory_utilization=args.vllm_gpu_memory_utilization,
            max_model_length=args.vllm_max_model_length,
            # As many as a turn asks for at once, and below the 4096 tokens that TRL lets a batch have.
            max_num_seqs=min(max(args.samples(args.world_size).values()) * args.vllm_tensor_parallel_size, 1024),
            enable_sleep_mode=args.vllm_enable_sleep_mode,
            model_impl=args.vllm_model_impl,
            trust_remote_code=args.trust_remote_code,
            repetition_penalty=args.repetition_penalty,
            min_p=args.min_p,
            logprobs=0,
        )


def server_vllm(accelerator: Any, tokenizer: Any, model: Any, url: str, port: int, timeout: float, dtype: Any) -> Any:
    """Return a channel to a vLLM server: TRL's VLLMGeneration in server mode, whose `sync_weights` sends the weights
    of `model` as `dtype`. All processes must call it; if only the main process raises, the others return."""
    from trl.generation.vllm_generation import VLLMGeneration

    class Channel(VLLMGeneration):
        def _iter_named_params(self) -> Iterator[tuple[str, torch.Tensor]]:
            for name, weight in super()._iter_named_params():
                yield name, weight.to(dtype) if weight.is_floating_point() and accelerator.is_main_process else weight

    try:
        return Channel(
            model=model,
            accelerator=accelerator,
            processing_class=tokenizer,
            mode="server",
            server_base_url=url,
            group_port=port,
            server_timeout=timeout,
        )
    except ImportError:  # on all of them, before they meet
        raise
    except Exception:
        # The constructor finally waits for all processes: the others have arrived.
        if accelerator.is_main_process:
            accelerator.wait_for_everyone()
        raise


def close_channel(channel: Any) -> None:
    """Close a channel of `server_vllm` and free its port, which TRL's client would hold until the process ends."""
    client = getattr(channel, "vllm_client", None)
    if client is not None:
        atexit.unregister(client.close_communicator)
        client.close_communicator()
