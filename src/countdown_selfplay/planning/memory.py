"""Bytes that follow from the settings of a run (docs/memory.md): weights, gradients, optimizer and KV cache.
planning/probe.py measures the rest too."""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from peft import PeftConfig, get_peft_model
from transformers import AutoModelForCausalLM

from ..distributed.choose import choose_engine
from ..evaluation.terminal import aligned
from ..policies.narrow import frozen_linears

GIB = 2**30
Parts = dict[str, tuple[float, str]]
"""Name -> (bytes, how they come about)."""
ENGINES = {"none": "one process", "ddp": "DDP", "zero2": "ZeRO-2", "zero3": "ZeRO-3", "fsdp2": "FSDP2"}
SHARDED = ("zero2", "zero3", "fsdp2")


@dataclass(frozen=True)
class Launch:
    """How a launch spreads the state. kind: one of ENGINES. device: cpu or cuda. bf16: mixed precision."""

    kind: str = "none"
    processes: int = 1
    device: str = "cpu"
    bf16: bool = False

    @property
    def sentence(self) -> str:
        spread = ENGINES[self.kind] + ("" if self.kind == "none" else f" over {self.processes} processes")
        return f"{spread}, {'bf16' if self.bf16 else 'fp32'}, {self.device}"


def launch_of(args: Any) -> Launch:
    """The launch of this process (`accelerate launch` says so in environment variables)."""
    kind = choose_engine(args).name
    if kind not in SHARDED:  # ZeRO-1 spreads no more than DDP does
        kind = "ddp" if args.world_size > 1 or kind != "ddp" else "none"
    return Launch(kind, args.world_size, torch.device(args.device).type, bool(args.bf16))


def planned_launch(config: Mapping[str, Any], processes: int | None) -> Launch:
    """The launch that an Accelerate config file describes; `processes` overrides the file's."""
    world = processes or int(config.get("num_processes") or 1)
    kind = str(config.get("distributed_type", "NO")).upper()
    engine = "fsdp2" if kind == "FSDP" else "ddp" if world > 1 else "none"
    if kind == "DEEPSPEED":
        stage = int((config.get("deepspeed_config") or {}).get("zero_stage", 2))
        engine = {2: "zero2", 3: "zero3"}.get(stage, "ddp")
    device = "cpu" if config.get("use_cpu") else "cuda"
    return Launch(engine, world, device, str(config.get("mixed_precision", "no")) == "bf16")


def narrowed_of(config: Any) -> int:
    """Parameters of a model that are in bf16 where it is frozen and autocast is on."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).requires_grad_(False)
    return sum(p.numel() for layer in frozen_linears(model) for p in layer.parameters())


def parameters_of(config: Any, adapter: PeftConfig | None = None) -> tuple[int, int]:
    """Parameters of a model, tied ones once, and of one adapter over it. Nothing is loaded or allocated."""
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(config)
        whole = model.num_parameters()
        if adapter is None:
            return whole, 0
        return whole, get_peft_model(model, copy.deepcopy(adapter)).get_nb_trainable_parameters()[0]


def state(launch: Launch, weights: int, trained: int, weight_bytes: int = 4, frozen: int = 0) -> tuple[Parts, Parts]:
    """What lasts through a run, and the gradients, which live while training only; `weights`: all, `trained`: those
    that an optimizer has; `frozen`: of `weights` those of frozen linear layers."""
    n, deepspeed = launch.processes, launch.kind in ("zero2", "zero3")
    size = 2 if deepspeed and launch.bf16 else weight_bytes
    moments = 12 if deepspeed else 2 * size  # DeepSpeed keeps a float32 copy of the weights beside Adam's two moments
    spread = n if launch.kind in SHARDED else 1

    def part(number: int, each: int, over: int) -> tuple[float, str]:
        return number * each / over, f"{number / 1e6:.1f}M x {each} bytes" + (f" / {over}" if over > 1 else "")

    lasting = {
        "weights": part(weights, size, 1 if launch.kind == "zero2" else spread),
        "optimizer": part(trained, moments, spread),
    }
    if frozen and launch.bf16 and spread == 1 and size == 4:
        spared, words = lasting["weights"]
        lasting["weights"] = (spared - frozen * 2, f"{words}, {frozen / 1e6:.1f}M of them x 2")
    return lasting, {"gradients (training)": part(trained, size, spread)}


def kv_cache(config: Any, texts: Iterable[tuple[str, int, int]], each: int) -> Parts:
    """Keys and values of the texts (who, how many, their tokens) of the one that needs most, of `each` bytes."""
    text = config.get_text_config()
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    width = heads * (getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads)
    who, number, tokens = max(texts, key=lambda one: one[1] * one[2])
    size = float(text.num_hidden_layers * width * 2 * each * number * tokens)
    return {"KV cache (sampling)": (size, f"{who}: {number} texts of {tokens} tokens")}


def memory_table(lasting: Parts, sampling: Parts, training: Parts) -> str:
    """At most 80 columns wide."""
    rows = [(name, f"{size / GIB:.3f}", words) for name, (size, words) in {**lasting, **sampling, **training}.items()]
    halves = (sum(size for size, _ in (*lasting.values(), *half.values())) for half in (sampling, training))
    both = "the larger of sampling and training" if sampling else ""
    least = ("at least", f"{max(halves) / GIB:.3f}", both)
    table = aligned([("part", "GiB", "how it comes about"), *rows, least])
    return f"{table}\nNot counted: references, logits, activations, buffers, CUDA."
