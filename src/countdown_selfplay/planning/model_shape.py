"""What a memory estimate is made from: the sizes of a model, the engine that spreads them, the bytes of a number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from ..distributed.choose import choose_engine
from ..errors import ConfigError

ENGINES = ("none", "ddp", "zero2", "zero3", "fsdp2")


@dataclass(frozen=True)
class ModelShape:
    """Sizes of one causal LM, in numbers (not bytes).

    parameters: all, tied ones once. embedding: one V x H matrix. adapted: inputs plus outputs of the linear layers
    below the head, summed (a LoRA adapter of rank r has r times that many weights). key: width of all key heads.
    """

    parameters: int
    embedding: int
    adapted: int
    layers: int
    vocabulary: int
    key: int


def model_shape(model: str | Any) -> ModelShape:
    """The sizes of a model id, path or config, from its config alone: nothing is loaded or allocated.

    OSError or ValueError if the config cannot be read.
    """
    config = AutoConfig.from_pretrained(model) if isinstance(model, str) else model
    with torch.device("meta"):
        skeleton: Any = AutoModelForCausalLM.from_config(config)
    text = config.get_text_config()
    head = skeleton.get_output_embeddings()
    linear = [m for m in skeleton.modules() if isinstance(m, torch.nn.Linear) and m is not head]
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    return ModelShape(
        parameters=skeleton.num_parameters(),
        embedding=skeleton.get_input_embeddings().weight.numel(),
        adapted=sum(m.in_features + m.out_features for m in linear),
        layers=text.num_hidden_layers,
        vocabulary=text.vocab_size,
        key=heads * (getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads),
    )


@dataclass(frozen=True)
class Engine:
    """How the state is spread. kind: one of ENGINES. device: cpu or cuda (anything but cpu counts as an accelerator).
    bf16: mixed precision. total: bytes of one accelerator, None if there is none here."""

    kind: str = "none"
    processes: int = 1
    device: str = "cpu"
    bf16: bool = False
    total: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in ENGINES:
            raise ConfigError(f"The engine ({self.kind}) must be one of {', '.join(ENGINES)}.")
        if self.processes < 1:
            raise ConfigError(f"The number of processes ({self.processes}) must be at least 1.")

    @property
    def sentence(self) -> str:
        names = {"none": "one process", "ddp": "DDP", "zero2": "ZeRO-2", "zero3": "ZeRO-3", "fsdp2": "FSDP2"}
        spread = names[self.kind] + ("" if self.kind == "none" else f" over {self.processes} processes")
        return f"{spread}, {'bf16' if self.bf16 else 'fp32'}, {self.device}"


def engine_of(args: Any) -> Engine:
    """The engine that this process was launched with (`accelerate launch` says so in environment variables)."""
    device = torch.device(args.device).type
    total = torch.cuda.get_device_properties(args.device).total_memory if device == "cuda" else None
    kind = choose_engine(args).name
    if kind not in ENGINES[2:]:  # ZeRO-1 spreads no more than DDP does
        kind = "ddp" if args.world_size > 1 or kind != "ddp" else "none"
    return Engine(kind, args.world_size, device, bool(args.bf16), total)


def planned_engine(config: dict[str, Any], processes: int | None) -> Engine:
    """The engine of an Accelerate config file that has not been launched; `processes` overrides the file's."""
    world = processes or int(config.get("num_processes") or 1)
    kind = str(config.get("distributed_type", "NO")).upper()
    engine = "ddp" if world > 1 else "none"
    if kind == "DEEPSPEED":
        stage = int((config.get("deepspeed_config") or {}).get("zero_stage", 2))
        engine = {2: "zero2", 3: "zero3"}.get(stage, "ddp")
    elif kind == "FSDP":
        engine = "fsdp2"
    on_cpu = bool(config.get("use_cpu"))
    bf16 = str(config.get("mixed_precision", "no")) == "bf16"
    total = torch.cuda.get_device_properties(0).total_memory if torch.cuda.is_available() and not on_cpu else None
    return Engine(engine, world, "cpu" if on_cpu else "cuda", bf16, total)


def bytes_of(dtype: Any, shape_dtype: Any = None) -> int:
    """Bytes of a weight: `dtype` as the model options name it ("auto": the checkpoint's own; None: float32)."""
    name = str(dtype or "float32").removeprefix("torch.")
    if name == "auto":
        name = str(shape_dtype or "float32").removeprefix("torch.")
    return getattr(torch, name, torch.float32).itemsize
