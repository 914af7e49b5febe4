"""The memory that a configuration needs per process, estimated before anything is loaded (docs/memory.md derives each
line and compares it with measured peaks)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..config import JointSelfPlayConfig, RoleSettings
from .model_shape import Engine, ModelShape

GIB = 2**30
_TILE_TOKENS, _TILE_VOCABULARY = 4096, 32768  # tile of logits in TRL's fused head (trl/kernels, trl/trainer/utils.py)
_LIVE_PARAMETERS = 1_000_000_000  # DeepSpeed's stage3_max_live_parameters


@dataclass(frozen=True)
class MemoryEstimate:
    """GiB per process. parts: name -> (GiB, how it comes about). sampling, training: what the two halves of a round
    need, the lasting parts included; peak: the larger of the two."""

    parts: dict[str, tuple[float, str]]
    sampling: float
    training: float

    @property
    def peak(self) -> float:
        return max(self.sampling, self.training)


def estimate_memory(
    shape: ModelShape,
    args: JointSelfPlayConfig,
    engine: Engine,
    prompt_tokens: Mapping[str, int],
    *,
    lora_rank: int | None = None,
    weight_bytes: int = 4,
    one_source: bool = True,
) -> MemoryEstimate:
    """Estimate the parts and the peak for completions of full length.

    `prompt_tokens`: per kind of role. `lora_rank`: None if no adapter is trained. `one_source`: all roles start from
    the same weights (they then share a reference). Left out: Python and its libraries, the CUDA context,
    fragmentation.
    """
    lasting, training = _state(shape, args, engine, lora_rank, weight_bytes, one_source)
    players = list(args.all_roles.values())
    roles = [s for s in players if s.trained]
    numbers = _Numbers(shape, engine, weight_bytes)
    passes = _passes(numbers, args, roles, prompt_tokens, head_trained=lora_rank is None)
    gradients = training["gradients"][0]
    apart = args.policy_sharing != "tied" and engine.kind in ("none", "ddp")
    together = max(
        kept + logits + (gradients * _gradients_beside(roles, i) if apart else gradients)
        for i, (kept, logits, _, _) in enumerate(passes)
    )
    training["activations"] = max((kept, words) for kept, _, words, _ in passes)
    training["logits, training"] = max((logits, words) for _, logits, _, words in passes)
    sampling: dict[str, tuple[float, str]] = {}
    copies = numbers.cast_weights()
    if copies:
        training["bf16 copies"] = (copies, "autocast keeps them through a forward pass")
        if getattr(args, "generation_backend", "generate") == "generate" and not _by_vllm(args):
            sampling["bf16 copies"] = training["bf16 copies"]
    sampling |= _rollout(numbers, args, players, prompt_tokens)
    if "vLLM" in sampling and not getattr(args, "vllm_enable_sleep_mode", False):
        lasting["vLLM"] = sampling.pop("vLLM")  # awake, it keeps its memory while the roles are trained
    gathered = _gathered(shape, args, engine, lora_rank, weight_bytes, one_source)
    if gathered is not None:
        sampling["gathered weights"], training["gathered weights"] = gathered
    base = sum(size for size, _ in lasting.values())
    beside = sum(training[name][0] for name in ("bf16 copies", "gathered weights") if name in training)
    parts = {**lasting, **training}
    for name, part in sampling.items():
        parts[name] = max(parts.get(name, part), part)
    return MemoryEstimate(
        {name: (size / GIB, words) for name, (size, words) in parts.items()},
        (base + sum(size for size, _ in sampling.values())) / GIB,
        (base + beside + max(together, gradients)) / GIB,
    )


def _passes(
    numbers: _Numbers,
    args: JointSelfPlayConfig,
    roles: list[RoleSettings],
    prompt: Mapping[str, int],
    head_trained: bool,
) -> list[tuple[float, float, str, str]]:
    """Of a micro-batch of each role: bytes of activations, bytes of logits, and what they hold in words."""
    found = []
    for r in roles:
        rows, length = args.per_device_train_batch_size, prompt[r.kind] + r.max_completion_length
        # The fused head scores the completion's tokens on an accelerator, all tokens on a CPU.
        scored = rows * (length if numbers.engine.device == "cpu" else r.max_completion_length)
        kept = numbers.activations(rows * length, length, bool(args.gradient_checkpointing))
        logits = numbers.loss_logits(scored, head_trained)
        words = f"{r.role}: {rows * length} tokens"
        found.append((kept, logits, words, f"tiles of {min(scored, _TILE_TOKENS)} tokens"))
    return found


def _gradients_beside(roles: list[RoleSettings], turn: int) -> float:
    """Share of all gradients that exist together with the activations of role `turn`: those of the roles before it,
    and its own from its second micro-batch on. In its last one they appear while the activations go."""
    own = roles[turn].micro_batches > 1
    return (turn + own) / len(roles)


LEFT_OUT = "Not counted: Python and its libraries, the CUDA context, fragmentation."

Parts = dict[str, tuple[float, str]]


def _state(
    shape: ModelShape, args: JointSelfPlayConfig, engine: Engine, rank: int | None, w: int, one_source: bool
) -> tuple[Parts, Parts]:
    """What lasts through a run, and what lives while training only (the gradients), by engine."""
    sets, copies = _held(args, rank, one_source)
    adapters = 0 if rank is None else sets * rank * shape.adapted
    trained = adapters or sets * shape.parameters
    weights = copies * shape.parameters + adapters
    n, kind = engine.processes, engine.kind
    deepspeed = kind in ("zero2", "zero3")
    if deepspeed and engine.bf16:
        w = 2
    name = f"{weights / 1e6:.1f}M x {w} bytes"
    if kind in ("zero3", "fsdp2"):
        lasting: Parts = {"weights": (weights * w / n, f"{name} / {n}")}
    else:
        lasting = {"weights": (weights * w, name)}
    references = _references(args, rank, one_source)
    if references:
        size, words = float(references * shape.parameters * w), f"{references} frozen, whole on each process"
        if kind in ("zero3", "fsdp2"):
            size, words = size / n, f"{references} frozen / {n}"
        lasting["references"] = (size, words)
    spread = n if deepspeed or kind == "fsdp2" else 1
    by = "" if spread == 1 else f" / {spread}"
    # DeepSpeed keeps a float32 copy of the trained weights beside Adam's two moments.
    moments = 12 if deepspeed else 2 * w
    lasting["optimizer"] = (trained * moments / spread, f"{trained / 1e6:.1f}M x {moments} bytes{by}")
    if kind == "ddp":
        lasting["gradient buckets"] = (trained * w, "DDP's copy of the gradients")
    gradients: Parts = {"gradients": (trained * w / spread, f"{trained / 1e6:.1f}M x {w} bytes{by}")}
    return lasting, gradients


def _held(args: JointSelfPlayConfig, rank: int | None, one_source: bool) -> tuple[int, int]:
    """Sets of weights that are trained, and whole models in memory: with adapters one per distinct start, without them
    the trained ones and the frozen roles' copies."""
    players = args.all_roles.values()
    sets = len({s.weights for s in players if s.trained})
    if rank is not None or args.policy_sharing == "lora":
        return sets, len({s.model for s in players}) + (not one_source)
    return sets, sets + len({s.model for s in players if s.weights is None})


def _references(args: JointSelfPlayConfig, rank: int | None, one_source: bool) -> int:
    """Frozen copies: one per start and temperature; none with adapters."""
    if rank is not None or args.policy_sharing == "lora":
        return 0
    alike = one_source or args.policy_sharing == "tied"
    anchored = [s for s in args.all_roles.values() if s.beta > 0]
    return len({(s.model if alike else s.weights, s.temperature) for s in anchored})


def _gathered(
    shape: ModelShape, args: JointSelfPlayConfig, engine: Engine, rank: int | None, w: int, one_source: bool
) -> tuple[tuple[float, str], tuple[float, str]] | None:
    """Bytes of weights made whole for a while, (sampling, training); None where weights are whole anyway. A model that
    vLLM samples for is gathered one tensor at a time, to be pushed; of adapters, one adapter's tensors."""
    size = 2 if engine.bf16 else 4
    if engine.kind == "zero3":
        copies = _held(args, rank, one_source)[1]
        sampling = (copies * shape.parameters * float(size), "ZeRO-3 gathers all to sample")
        training = (min(shape.parameters, _LIVE_PARAMETERS) * float(size), "live in ZeRO-3")
        w = 2 if engine.bf16 else w
    elif engine.kind == "fsdp2":
        sampling = training = ((2 * shape.block + shape.embedding) * float(size), "two layers, embeddings")
    else:
        return None
    if _by_vllm(args):
        pushed = shape.tensor if rank is None else rank * shape.adapted
        sampling = (pushed * float(w), "a tensor at a time to push" if rank is None else "an adapter to push")
    return sampling, training


def _by_vllm(args: JointSelfPlayConfig) -> bool:
    """vLLM samples, in this process or in a server: the trained module runs no forward pass while sampling."""
    return getattr(args, "generation_backend", "generate").startswith("vllm") or bool(getattr(args, "use_vllm", False))


def _rollout(
    numbers: _Numbers, args: JointSelfPlayConfig, roles: list[RoleSettings], prompt: Mapping[str, int]
) -> Parts:
    """What sampling needs, for the role that needs most; with vLLM the engine's own share instead."""
    if _by_vllm(args):
        return _vllm(numbers, args, roles, prompt)
    found = []
    for r in roles:
        rows = args.per_device_train_batch_size * r.micro_batches
        length = prompt[r.kind] + r.max_completion_length
        cache = numbers.cache(rows * length)
        logits = numbers.sampled_logits(rows, r.top_p < 1)
        work = numbers.sampling_work(rows, prompt[r.kind], length)
        words = f"{r.role}: {rows} texts of {length} tokens"
        found.append((cache + logits + work, cache, logits, work, words, rows))
    _, cache, logits, work, words, rows = max(found)
    return {
        "KV cache": (cache, words),
        "logits, sampling": (logits, f"{rows} texts x {numbers.shape.vocabulary} words"),
        "sampling work": (work, "the prompt's pass, one layer's keys and values"),
    }


def _vllm(numbers: _Numbers, args: JointSelfPlayConfig, roles: list[RoleSettings], prompt: Mapping[str, int]) -> Parts:
    if getattr(args, "generation_backend", "vllm") == "vllm_server":
        return {"vLLM": (0.0, "in a server of its own")}
    share = float(getattr(args, "vllm_gpu_memory_utilization", 0.3))
    if numbers.engine.total is not None:
        return {"vLLM": (share * numbers.engine.total, f"{share:g} of this device")}
    tokens = max(
        args.per_device_train_batch_size * r.micro_batches * (prompt[r.kind] + r.max_completion_length) for r in roles
    )
    tensor = max(1, int(getattr(args, "vllm_tensor_parallel_size", 1) or 1))
    least = (numbers.shape.parameters * 2 + 4 * numbers.shape.layers * numbers.shape.key * tokens) / tensor
    return {"vLLM": (least, f"weights and cache in bf16; it takes {share:g} of the GPU")}


@dataclass(frozen=True)
class _Numbers:
    """Bytes of what lives for a moment. All counts are of tokens or texts on one process."""

    shape: ModelShape
    engine: Engine
    weight_bytes: int

    @property
    def half(self) -> bool:
        """The products are computed in 2 bytes: by autocast, by an engine that casts, or as the weights are."""
        return self.engine.bf16 or self.weight_bytes == 2

    @property
    def autocast(self) -> bool:
        """Weights of 4 bytes, products in 2: DeepSpeed and FSDP2 cast the weights themselves."""
        return self.engine.bf16 and self.weight_bytes == 4 and self.engine.kind in ("none", "ddp")

    def cast_weights(self) -> float:
        return 2.0 * self.shape.linear if self.autocast else 0.0

    def layer(self, tokens: int, length: int) -> float:
        """Tensors that backward needs of one layer: the two norms' inputs and normalised inputs, the projections'
        inputs, queries, keys and values (repeated to all heads) and the attention's output, four of the MLP's width.
        """
        s = self.shape
        size = 2 if self.half else 4
        if not self.half:
            norms = 24 * s.hidden
        elif self.weight_bytes == 2 or not self.autocast:
            norms = 16 * s.hidden
        else:  # autocast casts the input of each projection anew: q, k, v, gate, up
            norms = 26 * s.hidden
        if s.qk_norm:
            norms += (s.query + s.key) * (6 if self.half else 8) + 4 * (s.heads + s.kv_heads)
        attention = 4 * s.query * size + 4 * s.heads + 8 + size * length
        return float(tokens) * (norms + attention + 4 * s.intermediate * size)

    def activations(self, tokens: int, length: int, checkpointed: bool) -> float:
        """Tensors kept for backward; with checkpointing the layers' inputs and one layer while it is redone."""
        s = self.shape
        ends = (
            float(tokens) * 4 * s.hidden * 4
        )  # the last norm, the hidden states that the head reads and their gradient
        if checkpointed:
            stored = 2 if self.weight_bytes == 2 else 4
            return s.layers * float(tokens) * s.hidden * stored + self.layer(tokens, length) + ends
        return s.layers * self.layer(tokens, length) + ends

    def loss_logits(self, tokens: int, head_trained: bool) -> float:
        """TRL's fused head makes logits in tiles of 4096 tokens x 32768 words. An accelerator folds a tile in one
        kernel; on a CPU backward has eight more tensors of its size in float32. The gradient of a
        head that is trained is summed in float32 beside the one that is being accumulated."""
        s = self.shape
        rows = min(tokens, _TILE_TOKENS)
        size = 2 if self.half else 4
        head = 4.0 * s.embedding if head_trained else 0.0
        if self.engine.device != "cpu":
            return rows * _TILE_VOCABULARY * size + head
        words = min(_TILE_VOCABULARY, s.vocabulary)
        return float(rows) * words * (size + 8 * 4) + head

    def cache(self, tokens: int) -> float:
        """Keys and values of all layers. Under autocast rotated keys are float32 and values bf16."""
        each = 6 if self.autocast else 4 if self.half else 8
        return float(self.shape.layers) * self.shape.key * each * tokens

    def sampled_logits(self, rows: int, nucleus: bool) -> float:
        """The last position's logits, their float32 copy, the scaled ones, probabilities and the draw; top-p sorts."""
        return float(rows) * self.shape.vocabulary * ((2 if self.half else 4) + 16 + (16 if nucleus else 0))

    def sampling_work(self, rows: int, prompt: int, length: int) -> float:
        """The larger of: a prompt's forward pass (hidden states, three of the MLP's width), and at the end one layer's
        keys and values, being appended to and repeated to all heads."""
        s, size = self.shape, 2 if self.half else 4
        first = float(rows) * prompt * (3 * s.hidden * 4 + 3 * s.intermediate * size)
        last = float(rows) * length * (2 * s.key + 2 * s.query) * size
        return max(first, last)
