"""What a formula knows of the memory that a configuration needs per process (docs/memory.md): weights, gradients,
optimizer, references, KV cache and logits. The rest, activations above all, is measured by planning/probe.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..config import RoleSettings
from .model_shape import Engine, ModelShape

GIB = 2**30
_TILE_TOKENS, _TILE_VOCABULARY = 4096, 32768  # tile of logits in TRL's fused head (trl/kernels, trl/trainer/utils.py)

LEFT_OUT = (
    "A lower bound. Not counted: activations, weights that an engine gathers or\n"
    "casts for a while, Python and its libraries, the CUDA context, fragmentation.\n"
    "--probe plays rounds and measures."
)

Parts = dict[str, tuple[float, str]]
"""Name -> (bytes, how they come about)."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Per process. lasting: what is there all the time; sampling, training: what one half of a round needs besides."""

    lasting: Parts
    sampling: Parts
    training: Parts

    def gib(self, half: str) -> float:
        """GiB that exist together in a half, `sampling` or `training`: its own and the lasting ones."""
        return sum(size for size, _ in (*self.lasting.values(), *getattr(self, half).values())) / GIB

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
    roles: Sequence[RoleSettings],
    engine: Engine,
    prompt_tokens: Mapping[str, int],
    *,
    rows: int,
    sharing: str = "full",
    lora_rank: int | None = None,
    weight_bytes: int = 4,
    one_source: bool = True,
    vllm: Vllm | None = None,
) -> MemoryEstimate:
    """The parts for texts of full length. `roles`: one entry for each player, trained or not; `prompt_tokens`: per
    kind; `rows`: of a micro-batch on one process. `lora_rank`: None if no adapter is trained. `one_source`: all that
    name no model of their own start from the same weights (they then share a reference)."""
    lasting, gradients = _state(shape, roles, engine, sharing, lora_rank, weight_bytes, one_source)
    references = 0 if lora_rank is not None else _references(roles, one_source or sharing == "tied")
    if references:
        spread = engine.processes if engine.kind in ("zero3", "fsdp2") else 1
        words = f"{references} frozen" + (f" / {spread}" if spread > 1 else ", whole on each process")
        lasting["references"] = (references * shape.parameters * float(weight_bytes) / spread, words)
    half = engine.bf16 or weight_bytes == 2
    tokens = {r.role: prompt_tokens[r.kind] + r.max_completion_length for r in roles}
    # The fused head scores the completion's tokens on an accelerator, all tokens on a CPU.
    scored = [tokens[r.role] if engine.device == "cpu" else r.max_completion_length for r in roles if r.trained]
    # TRL's fused head makes logits in tiles of 4096 tokens x 32768 words. An accelerator folds a tile in one kernel;
    # on a CPU backward has eight more tensors of its size in float32.
    width, size = (min(_TILE_VOCABULARY, shape.vocabulary), 32) if engine.device == "cpu" else (_TILE_VOCABULARY, 0)
    logits = float(min(rows * max(scored), _TILE_TOKENS)) * width * (size + (2 if half else 4))
    head = 4.0 * shape.embedding if lora_rank is None else 0.0  # summed in float32 beside the one that is accumulated
    training: Parts = {"gradients": gradients, "logits, training": (logits + head, "a tile, and the head's gradient")}
    if vllm is None:
        return MemoryEstimate(lasting, _rollout(shape, roles, engine, tokens, rows, weight_bytes), training)
    sampling: Parts = {"vLLM": (0.0, "in a server of its own")}
    if not vllm.server:
        held = max(_texts(r, rows) * tokens[r.role] for r in roles)
        least = (shape.parameters * 2.0 + 4.0 * shape.layers * shape.key * held) / vllm.tensor
        sampling["vLLM"] = (
            (least, f"weights and cache in bf16; it takes {vllm.share:g} of the GPU")
            if engine.total is None
            else (vllm.share * engine.total, f"{vllm.share:g} of this device")
        )
        if not vllm.sleeps:
            lasting |= sampling  # awake, it keeps its memory while the roles are trained
            sampling = {}
    return MemoryEstimate(lasting, sampling, training)


def _state(
    shape: ModelShape,
    roles: Sequence[RoleSettings],
    engine: Engine,
    sharing: str,
    rank: int | None,
    w: int,
    one_source: bool,
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
    n, deepspeed = engine.processes, engine.kind in ("zero2", "zero3")
    if deepspeed and engine.bf16:
        w = 2
    whole = engine.kind not in ("zero3", "fsdp2")
    name = f"{weights / 1e6:.1f}M x {w} bytes"
    spread = n if deepspeed or engine.kind == "fsdp2" else 1
    by = "" if spread == 1 else f" / {spread}"
    # DeepSpeed keeps a float32 copy of the trained weights beside Adam's two moments.
    moments = 12 if deepspeed else 2 * w
    lasting: Parts = {
        "weights": (weights * w, name) if whole else (weights * w / n, f"{name} / {n}"),
        "optimizer": (trained * moments / spread, f"{trained / 1e6:.1f}M x {moments} bytes{by}"),
    }
    if engine.kind == "ddp":
        lasting["gradient buckets"] = (trained * w, "DDP's copy of the gradients")
    return lasting, (trained * w / spread, f"{trained / 1e6:.1f}M x {w} bytes{by}")


def _references(roles: Sequence[RoleSettings], alike: bool) -> int:
    """Frozen copies: one per start and temperature."""
    anchored = [r for r in roles if r.trained and r.beta > 0]
    return len({(r.model if alike else r.weights, r.temperature) for r in anchored})


def _rollout(
    shape: ModelShape,
    roles: Sequence[RoleSettings],
    engine: Engine,
    tokens: Mapping[str, int],
    rows: int,
    weight_bytes: int,
) -> Parts:
    """Keys and values of all texts of a round, and the last position's logits, for the role that needs most."""
    half = engine.bf16 or weight_bytes == 2
    # Under autocast rotated keys are float32 and values bf16; DeepSpeed and FSDP2 cast the weights themselves.
    autocast = engine.bf16 and weight_bytes == 4 and engine.kind in ("none", "ddp")
    pair = 6 if autocast else 4 if half else 8
    found = []
    for r in roles:
        texts, length = _texts(r, rows), tokens[r.role]
        cache = float(shape.layers) * shape.key * pair * texts * length
        # The last position's, their float32 copy, the scaled ones, probabilities and the draw; top-p sorts.
        logits = float(texts) * shape.vocabulary * ((2 if half else 4) + 16 + (16 if r.top_p < 1 else 0))
        found.append((cache + logits, cache, logits, f"{r.role}: {texts} texts of {length} tokens", texts))
    _, cache, logits, words, texts = max(found)
    return {
        "KV cache": (cache, words),
        "logits, sampling": (logits, f"{texts} texts x {shape.vocabulary} words"),
    }


def _texts(role: RoleSettings, rows: int) -> int:
    """What a process samples at once."""
    return rows * role.micro_batches if role.samples_per_round is None else role.samples_per_round
