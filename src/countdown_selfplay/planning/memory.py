"""Estimate of the memory that a configuration needs per process (docs/memory.md): weights, gradients, optimizer,
references, KV cache and logits, from a model's sizes. planning/probe.py measures the rest, activations above all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from ..config import Role
from ..distributed.choose import choose_engine
from ..errors import ConfigError

GIB = 2**30
_TILE_TOKENS, _TILE_VOCABULARY = 4096, 32768  # tile of logits in TRL's fused head (trl/kernels, trl/trainer/utils.py)

LEFT_OUT = (
    "A lower bound. Not counted: activations, weights that an engine gathers or\n"
    "casts for a while, Python and its libraries, the CUDA context, fragmentation."
)

Parts = dict[str, tuple[float, str]]
"""Name -> (bytes, how they come about)."""

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
class Launch:
    """How a launch spreads the state. kind: one of ENGINES. device: cpu or cuda (anything but cpu is an accelerator).
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


def launch_of(args: Any) -> Launch:
    """The launch of this process (`accelerate launch` says so in environment variables)."""
    device = torch.device(args.device).type
    total = torch.cuda.get_device_properties(args.device).total_memory if device == "cuda" else None
    kind = choose_engine(args).name
    if kind not in ENGINES[2:]:  # ZeRO-1 spreads no more than DDP does
        kind = "ddp" if args.world_size > 1 or kind != "ddp" else "none"
    return Launch(kind, args.world_size, device, bool(args.bf16), total)


def planned_launch(config: dict[str, Any], processes: int | None) -> Launch:
    """The launch that an Accelerate config file describes; `processes` overrides the file's."""
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
    return Launch(engine, world, "cpu" if on_cpu else "cuda", bf16, total)


def bytes_of(dtype: Any, shape_dtype: Any = None) -> int:
    """Bytes of a weight: `dtype` as the model options name it ("auto": the checkpoint's own; None: float32)."""
    name = str(dtype or "float32").removeprefix("torch.")
    if name == "auto":
        name = str(shape_dtype or "float32").removeprefix("torch.")
    return getattr(torch, name, torch.float32).itemsize


@dataclass(frozen=True)
class MemoryEstimate:
    """Per process. lasting: what is there all the time; sampling, training: what one half of a round needs besides."""

    lasting: Parts
    sampling: Parts
    training: Parts

    def gib(self, half: str) -> float:
        """GiB that exist together in a half, `sampling` or `training`: its own and the lasting ones."""
        parts = self.sampling if half == "sampling" else self.training
        return sum(size for size, _ in (*self.lasting.values(), *parts.values())) / GIB

    @property
    def peak(self) -> float:
        """GiB of the larger half."""
        return max(self.gib("sampling"), self.gib("training"))


@dataclass(frozen=True)
class Vllm:
    """share: of the device, kept for weights and cache. tensor: the devices that one copy of the model is cut over."""

    share: float = 0.0
    sleeps: bool = False
    server: bool = False
    tensor: int = 1


def estimate_memory(
    shape: ModelShape,
    roles: Sequence[Role],
    launch: Launch,
    prompt_tokens: Mapping[str, int],
    *,
    rows: int,
    sharing: str = "full",
    lora_rank: int | None = None,
    weight_bytes: int = 4,
    one_source: bool = True,
    vllm: Vllm | None = None,
    mixed: bool = False,
) -> MemoryEstimate:
    """The parts for texts of full length. `roles`: one entry for each player, trained or not; `prompt_tokens`: per
    kind; `rows`: of a micro-batch on one process. `lora_rank`: None if no adapter is trained. `one_source`: all that
    name no model of their own start from the same weights (they then share a reference). `mixed`: rows of all trained
    players share a pass (`mixed_adapters`)."""
    lasting, gradients = _state(shape, roles, launch, sharing, lora_rank, weight_bytes, one_source)
    references = 0 if lora_rank is not None else _references(roles, one_source or sharing == "tied")
    if references:
        spread = launch.processes if launch.kind in ("zero3", "fsdp2") else 1
        words = f"{references} frozen" + (f" / {spread}" if spread > 1 else ", whole on each process")
        lasting["references"] = (references * shape.parameters * float(weight_bytes) / spread, words)
    half = launch.bf16 or weight_bytes == 2
    tokens = {r.role: prompt_tokens[r.kind] + r.max_completion_length for r in roles}
    # The fused head scores the completion's tokens on an accelerator, all tokens on a CPU.
    scored = [tokens[r.role] if launch.device == "cpu" else r.max_completion_length for r in roles if r.trained]
    # TRL's fused head makes logits in tiles of 4096 tokens x 32768 words. An accelerator folds a tile in one kernel;
    # on a CPU backward has eight more tensors of its size in float32.
    width, size = (min(_TILE_VOCABULARY, shape.vocabulary), 32) if launch.device == "cpu" else (_TILE_VOCABULARY, 0)
    players = len({r.weights for r in roles if r.trained}) if mixed else 1
    logits = float(min(players * rows * max(scored), _TILE_TOKENS)) * width * (size + (2 if half else 4))
    head = 4.0 * shape.embedding if lora_rank is None else 0.0  # summed in float32 beside the one that is accumulated
    training: Parts = {"gradients": gradients, "logits, training": (logits + head, "a tile, and the head's gradient")}
    if (
        mixed
    ):  # policies/mixed_adapters.py; DDP reads a third tensor, stacked in the graph, and keeps its own gradients
        number = (1 if launch.kind == "none" else 3) * players * (lora_rank or 0) * shape.adapted
        words = f"{players} players' weights side by side; a pass has {players} x {rows} rows"
        training["mixed adapters"] = (float(number * weight_bytes), words)
    if vllm is None:
        return MemoryEstimate(lasting, _rollout(shape, roles, launch, tokens, rows, weight_bytes), training)
    sampling: Parts = {"vLLM": (0.0, "in a separate server")}
    if not vllm.server:
        held = max(_texts(r, rows) * tokens[r.role] for r in roles)
        least = (shape.parameters * 2.0 + 4.0 * shape.layers * shape.key * held) / vllm.tensor
        sampling["vLLM"] = (least, f"weights and cache in bf16; it takes {vllm.share:g} of the GPU")
        if launch.total is not None:
            sampling["vLLM"] = (vllm.share * launch.total, f"{vllm.share:g} of this device")
        if not vllm.sleeps:
            lasting |= sampling  # awake, it keeps its memory while the roles are trained
            sampling = {}
    return MemoryEstimate(lasting, sampling, training)


def _state(
    shape: ModelShape, roles: Sequence[Role], launch: Launch, sharing: str, rank: int | None, w: int, one_source: bool
) -> tuple[Parts, tuple[float, str]]:
    """What lasts through a run, and the gradients, which live while training only, by engine."""
    sets = len({r.weights for r in roles if r.trained})
    if rank is not None or sharing == "lora":  # a base for each distinct start
        copies = len({r.model for r in roles}) + (not one_source)
    else:
        copies = sets + len({r.model for r in roles if not r.trained})
    adapters = 0 if rank is None else sets * rank * shape.adapted
    trained = adapters or sets * shape.parameters
    weights = copies * shape.parameters + adapters
    n, deepspeed = launch.processes, launch.kind in ("zero2", "zero3")
    if deepspeed and launch.bf16:
        w = 2
    whole = launch.kind not in ("zero3", "fsdp2")
    name = f"{weights / 1e6:.1f}M x {w} bytes"
    spread = n if deepspeed or launch.kind == "fsdp2" else 1
    by = "" if spread == 1 else f" / {spread}"
    # DeepSpeed keeps a float32 copy of the trained weights beside Adam's two moments.
    moments = 12 if deepspeed else 2 * w
    lasting: Parts = {
        "weights": (weights * w, name) if whole else (weights * w / n, f"{name} / {n}"),
        "optimizer": (trained * moments / spread, f"{trained / 1e6:.1f}M x {moments} bytes{by}"),
    }
    if launch.kind == "ddp":
        lasting["gradient buckets"] = (trained * w, "DDP's copy of the gradients")
    return lasting, (trained * w / spread, f"{trained / 1e6:.1f}M x {w} bytes{by}")


def _references(roles: Sequence[Role], alike: bool) -> int:
    """Frozen copies: one per start and temperature."""
    anchored = [r for r in roles if r.trained and r.beta > 0]
    return len({(r.model if alike else r.weights, r.temperature) for r in anchored})


def _rollout(
    shape: ModelShape, roles: Sequence[Role], launch: Launch, tokens: Mapping[str, int], rows: int, weight_bytes: int
) -> Parts:
    """Keys and values of all texts of a round, and the last position's logits, for the role that needs most."""
    half = launch.bf16 or weight_bytes == 2
    # Under autocast rotated keys are float32 and values bf16; DeepSpeed and FSDP2 cast the weights themselves.
    autocast = launch.bf16 and weight_bytes == 4 and launch.kind in ("none", "ddp")
    pair = 6 if autocast else 4 if half else 8
    found = []
    for r in roles:
        texts, length = _texts(r, rows), tokens[r.role]
        cache = float(shape.layers) * shape.key * pair * texts * length
        # The last position's, their float32 copy, the scaled ones, probabilities and the draw; top-p sorts.
        logits = float(texts) * shape.vocabulary * ((2 if half else 4) + 16 + (16 if r.top_p < 1 else 0))
        found.append((cache + logits, cache, logits, f"{r.role}: {texts} texts of {length} tokens", texts))
    _, cache, logits, words, texts = max(found)
    return {"KV cache": (cache, words), "logits, sampling": (logits, f"{texts} texts x {shape.vocabulary} words")}


def _texts(role: Role, rows: int) -> int:
    """What a process samples at once."""
    return rows * role.micro_batches if role.samples_per_round is None else role.samples_per_round
