"""The seam: every private name of TRL and of the Trainer that this library touches, in one file.

The lists below are read twice: tests/contract holds them against the pinned TRL, and `_trl_check.py` against the one
at hand when a trainer is built. Nothing is copied: methods are overridden or called, attributes read or swapped.
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
"""The first TRL whose behaviour behind these names is the one that was tested; the floor in pyproject.toml."""
OVERRIDDEN = {
    "_prepare_inputs": ("self", "generation_batch"),
    "_calculate_rewards": ("self", "inputs", "prompts", "completions", "completion_ids_list"),
    "_save_checkpoint": ("self", "model", "trial"),
}
"""Methods of GRPOTrainer, with all their parameters."""
CALLED = {
    "_generate_and_score_completions": ("self", "inputs"),
    "_get_per_token_logps_and_entropies": (
        *("self", "model", "input_ids", "attention_mask", "logits_to_keep", "batch_size", "compute_entropy"),
    ),
}
"""The same, with the parameters that are passed; more may follow."""
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
"""What is imported from inside TRL, with the parameters that it must take."""
ATTRIBUTES = (
    *("_metrics", "_logs", "num_generations"),
    *("eos_token_ids", "generation_config", "generation_kwargs"),
)
SAMPLING_SWITCHES = ("use_vllm", "vllm_generation", "vllm_importance_sampling_correction", "_last_loaded_step")
COMPLETION_LOGS = ("images", "prompt", "completion", "rewards", "advantages", "extra")
ROLLOUT_KEYS = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "advantages", "num_items_in_batch")
"""What `_generate_and_score_completions` returns."""
LOSS_SINCE_LOG = ("_tr_loss", "_total_loss_scalar", "_globalstep_last_logged")
COMPILED_BY = ("ACCELERATE_DYNAMO_BACKEND", "ACCELERATE_DYNAMO_MODE")
"""Variables of the environment by which TrainingArguments asks accelerate to compile."""
RESUMED_BY = "_load_from_checkpoint"
"""These and the one before: of Transformers' Trainer."""


def inference_copy(model: Any, accelerator: Any, sharded_by: str) -> Any:
    """A frozen model under the run's engine. `sharded_by`: deepspeed (cut up at ZeRO-3, else whole) or fsdp."""
    from trl.models import prepare_deepspeed, prepare_fsdp

    prepare: Any = {"deepspeed": prepare_deepspeed, "fsdp": prepare_fsdp}[sharded_by]
    return prepare(model, accelerator)


def whole_for_generation(wrapped: Any, accelerator: Any, gather: bool) -> Any:
    """A context in which ZeRO-3's weights are whole and its hooks off (`gather`), or are gathered layer by layer at
    each step. All processes enter it together."""
    from trl.models import unwrap_model_for_generation

    return unwrap_model_for_generation(wrapped, accelerator, gather_deepspeed3_params=gather)


def patch_lm_head(model: Any, temperature: float, top1: bool = False) -> None:
    """Give a causal LM the fused log-prob head that the trainer's forward pass asks for, at the role's temperature.
    top1: it also says of each token whether it is the likeliest."""
    from trl.trainer.utils import add_fused_lm_head

    add_fused_lm_head(model, temperature=temperature, outputs=("log_probs", "entropy", *(["is_top1"] * top1)))


TILE = "_CHUNKED_LOGPROB_CHUNK_SIZE"


@contextmanager
def tile_of(vocabulary: int) -> Iterator[None]:
    """Inside the block TRL's fused head makes tiles that are no wider than the vocabulary. They are views of a buffer
    of TILE columns (32,768): on a CPU each row of a small vocabulary would touch pages of memory of its own.
    Where TRL has no TILE, nothing changes."""
    from trl.trainer import utils

    with swapped(utils, {TILE: min(vocabulary, getattr(utils, TILE))} if hasattr(utils, TILE) else {}):
        yield


@contextmanager
def swapped(target: Any, values: Mapping[str, Any]) -> Iterator[None]:
    """Inside the block these attributes of `target` have these values; one that it lacked is None afterwards."""
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
    """Around a turn's sampling by `module`: TRL pads rows in one call, and where no engine has wrapped the module
    (`bare`) and it checkpoints nothing, nothing is unwrapped, which would read a package's metadata each time."""
    trainer = importlib.import_module("trl.trainer.grpo_trainer")
    stock = trainer.pad

    def pad(
        tensors: list[torch.Tensor],
        padding_value: int = 0,
        padding_side: str = "right",
        pad_to_multiple_of: int | None = None,
    ) -> torch.Tensor:
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
    """While GRPOTrainer.__init__ runs, hide the settings that this library handles itself.

    beta: with beta > 0 TRL would reload a reference from the model's path; ours is the weights that were passed in.
    model_init_kwargs: the models are built already. entropy_coef, use_adaptive_entropy: the bonus is per role.
    torch_compile: accelerate would compile the whole module for each length; ours is by layers (policies/compiled.py).
    gradient_checkpointing_kwargs: for an adapter under ZeRO-3 TRL writes use_reentrant=True into them, and reentrant
    checkpointing fails with several roles in one window; without it DeepSpeed 0.19 trains adapters right, as
    tests/distributed measures.
    """
    hidden: dict[str, Any] = {"beta": 0.0, "entropy_coef": 0.0, "use_adaptive_entropy": False}
    hidden |= {"model_init_kwargs": None, "gradient_checkpointing_kwargs": None}
    if args.torch_compile:
        hidden |= {"torch_compile": False, "torch_compile_backend": None, "torch_compile_mode": None}
        for name in COMPILED_BY:
            os.environ.pop(name, None)
    with swapped(args, hidden):
        yield


def sampling_overrides(plain: dict[str, Any], ends: list[int], sampling: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of the trainer that must hold a role's values while that role samples.

    `plain`: TRL's generation_kwargs. `ends`: ids that end a completion. `sampling`: how the role is asked.
    Returned as {attribute: value}; the caller swaps them in and back.
    """
    kwargs = {**plain, **generation_settings(sampling, ends, plain["pad_token_id"])}
    config = GenerationConfig(**kwargs, disable_compile=True)
    return {"generation_kwargs": kwargs, "generation_config": config}


def empty_logs() -> dict[str, Any]:
    """What TRL collects a turn's completions in, for `log_completions`: its `_logs`, without a bound on the rows."""
    named: dict[str, Any] = {"rewards": defaultdict(list), "extra": defaultdict(list)}
    return {"images": [], "prompt": [], "completion": [], "advantages": [], **named}


def vllm_overrides(generation: Any, step: int) -> dict[str, Any]:
    """The attributes that make the trainer sample through `generation` (`generate`, as VLLMGeneration's) at `step`.

    The weights are pushed by then, so TRL finds its own push done. Its correction is off because it costs a second
    forward pass: in a round of one step the loss's own log-probs are those it would compute, and with more steps TRL
    keeps them all the same.
    """
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
    """TRL's VLLMGeneration in this process, holding `model`. `engine`: arguments of vLLM's LLM that TRL has no field
    for, or that differ from its own. `wrap`: what the trainer is to see instead of the LLM."""
    from trl.generation import vllm_generation as module

    llm = module.LLM
    module.LLM = lambda **given: wrap(llm(**{**given, **engine}))
    try:
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
    finally:
        module.LLM = llm


def server_vllm(accelerator: Any, tokenizer: Any, model: Any, url: str, port: int, timeout: float) -> Any:
    """TRL's channel for the weights of `model` to a vLLM server: VLLMGeneration in server mode, `sync_weights`. All
    processes call, and if the main one fails all return."""
    from trl.generation.vllm_generation import VLLMGeneration

    try:
        return VLLMGeneration(
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
        # The last thing that the constructor does is to wait for all processes: the others are there.
        if accelerator.is_main_process:
            accelerator.wait_for_everyone()
        raise


def close_channel(channel: Any) -> None:
    """Free the port of a channel of `server_vllm` for a new one: TRL's client keeps it until the process ends."""
    client = getattr(channel, "vllm_client", None)
    if client is not None:
        atexit.unregister(client.close_communicator)
        client.close_communicator()
