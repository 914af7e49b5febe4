"""Memory of a run in bytes, computed from its settings (docs/memory.md): weights, gradients, optimizer, sampling, and
the activations of a micro-batch; and the least change with which a run fits a GPU. planning/probe.py measures it."""

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from peft import PeftConfig, get_peft_model
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AutoModelForCausalLM

from ..config.role_rules import check_guard_scope, check_sharing
from ..distributed.choose import choose_engine
from ..distributed.ddp import frozen_linears
from ..errors import ConfigError
from ..evaluation.terminal import aligned

GIB = 2**30
Parts = dict[str, tuple[float, str]]
"""Parts of the memory: name -> (bytes, explanation)."""
ENGINES = {"none": "one process", "ddp": "DDP", "zero2": "ZeRO-2", "zero3": "ZeRO-3", "fsdp2": "FSDP2"}
SHARDED = ("zero2", "zero3", "fsdp2")


@dataclass(frozen=True)
class Launch:
    """Distribution of a run over processes. kind: one of ENGINES. device: cpu or cuda. bf16: mixed precision."""

    kind: str = "none"
    processes: int = 1
    device: str = "cpu"
    bf16: bool = False

    @property
    def sentence(self) -> str:
        spread = ENGINES[self.kind] + ("" if self.kind == "none" else f" over {self.processes} processes")
        return f"{spread}, {'bf16' if self.bf16 else 'fp32'}, {self.device}"


def launch_of(args: Any) -> Launch:
    """Return the launch of this process, from the environment variables of `accelerate launch`."""
    kind = choose_engine(args).name
    if kind not in SHARDED:  # ZeRO-1 shards no more than DDP does
        kind = "ddp" if args.world_size > 1 or kind != "ddp" else "none"
    return Launch(kind, args.world_size, torch.device(args.device).type, bool(args.bf16))


def planned_launch(config: Mapping[str, Any], processes: int | None) -> Launch:
    """Return the launch that an Accelerate config file describes; `processes` overrides its `num_processes`."""
    world = processes or int(config.get("num_processes") or 1)
    kind = str(config.get("distributed_type", "NO")).upper()
    engine = "fsdp2" if kind == "FSDP" else "ddp" if world > 1 else "none"
    if kind == "DEEPSPEED":
        stage = int((config.get("deepspeed_config") or {}).get("zero_stage", 2))
        engine = {2: "zero2", 3: "zero3"}.get(stage, "ddp")
    return Launch(engine, world, "cpu" if config.get("use_cpu") else "cuda", config.get("mixed_precision") == "bf16")


def room_of(launch: Launch) -> float:
    """Return the memory of this machine's GPU in bytes, or 79 GiB if it has none."""
    return float(torch.cuda.get_device_properties(0).total_memory) if torch.cuda.is_available() else 79.0 * GIB


def narrowed_of(config: Any) -> int:
    """Return the number of parameters that are in bf16 if the model is frozen and autocast is on."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).requires_grad_(False)
    return sum(p.numel() for layer in frozen_linears(model) for p in layer.parameters())


def parameters_of(config: Any, adapter: PeftConfig | None = None) -> tuple[int, int]:
    """Return the numbers of parameters of a model, tied ones once, and of one adapter over it, without loading."""
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(config)
        whole = model.num_parameters()
        if adapter is None:
            return whole, 0
        return whole, get_peft_model(model, copy.deepcopy(adapter)).get_nb_trainable_parameters()[0]


def state(launch: Launch, weights: int, trained: int, weight_bytes: int = 4, frozen: int = 0) -> tuple[Parts, Parts]:
    """Return the parts of the persistent state, and of the gradients, which exist only while training. `weights`,
    `trained`, `frozen`: numbers of all parameters, of trained ones, and of parameters in frozen linear layers."""
    n, deepspeed = launch.processes, launch.kind in ("zero2", "zero3")
    size = 2 if deepspeed and launch.bf16 else weight_bytes
    moments = 12 if deepspeed else 2 * size  # DeepSpeed's: a float32 copy of the weights beside Adam's two moments
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
    """Return the KV cache of the entry (name, number, tokens) of `texts` that needs most, at `each` bytes a value."""
    text = config.get_text_config()
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    width = heads * (getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads)
    who, number, tokens = max(texts, key=lambda one: one[1] * one[2])
    size = float(text.num_hidden_layers * width * 2 * each * number * tokens)
    return {"KV cache (sampling)": (size, f"{who}: {number} texts of {tokens} tokens")}


def reading(config: Any, adapted: bool, rows: int, tokens: int, each: int) -> tuple[float, str]:
    """Return the bytes of a layer's activations while it reads prompts, and a description. At `each` bytes a value:
    gate, up projection and product of the MLP (bf16 with adapters: the product alone, twice, and once in float32). In
    float32: the residual, the norm, the inputs of this layer and of the first."""
    text = config.get_text_config()
    inner = getattr(text, "intermediate_size", None) or 4 * text.hidden_size
    wide = inner * (2 * each + 4 if adapted and each == 2 else 3 * each)
    return float(rows * tokens * (wide + 16 * text.hidden_size)), f"{rows} prompts of {tokens} tokens, a layer of them"


def activations(
    config: Any, adapter: PeftConfig | None, rows: int, tokens: int, bf16: bool, recomputed: bool
) -> tuple[float, str]:
    """Return the bytes of the activations that the forward pass of a full-length micro-batch saves for backward, and a
    description. They are extrapolated from fake models of one and two layers. `recomputed`: with gradient
    checkpointing, which saves only one layer and the inputs of all. Includes the tiles of TRL's head."""
    text = config.get_text_config()
    layers, batch = text.num_hidden_layers, rows * tokens
    one, two = (_kept(config, adapter, number, (rows, tokens), bf16) for number in (1, 2))
    layer, inputs = two - one, batch * text.hidden_size * 4.0
    kept = one + (layers * inputs if recomputed else (layers - 1) * layer)
    tiles = 2 * 4.0 * min(batch, 4096) * min(text.vocab_size, 32768)
    return kept + tiles, f"{rows} rows of {tokens} tokens{', recomputed' * recomputed}"


def _kept(config: Any, adapter: PeftConfig | None, layers: int, shape: tuple[int, int], bf16: bool) -> int:
    config = copy.deepcopy(config)
    text = config.get_text_config()
    text.num_hidden_layers = layers
    if getattr(text, "layer_types", None):
        text.layer_types = text.layer_types[:layers]
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        if adapter is not None:
            model = get_peft_model(model, copy.deepcopy(adapter)).get_base_model()
    for part in frozen_linears(model) if bf16 else ():
        part.bfloat16()
    with FakeTensorMode():  # on a device, as autocast asks for one
        for module in model.modules():
            for name, part in module.named_parameters(recurse=False):
                own = torch.nn.Parameter(torch.empty(part.shape, dtype=part.dtype), part.requires_grad)
                module._parameters[name] = own
            for name, part in module.named_buffers(recurse=False):
                module._buffers[name] = torch.empty(part.shape, dtype=part.dtype)
        held = {part.untyped_storage()._cdata: (part.untyped_storage(), 0) for part in model.parameters()}

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            storage = tensor.untyped_storage()
            held.setdefault(storage._cdata, (storage, storage.nbytes()))
            return tensor

        watch = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
        with watch, torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            model.base_model(input_ids=torch.ones(shape, dtype=torch.long), use_cache=False)
    return sum(size for _, size in held.values())


def total(*parts: Parts) -> float:
    """Return the bytes of all parts."""
    return sum(size for part in parts for size, _ in part.values())


def memory_table(lasting: Parts, sampling: Parts, training: Parts) -> str:
    """Format the parts of the memory as a table of at most 80 columns."""
    rows = [(name, f"{size / GIB:.3f}", words) for name, (size, words) in {**lasting, **sampling, **training}.items()]
    both = "the larger half of a round, full length" if sampling else ""
    counted = "activations (training)" in training
    largest = total(lasting, max(sampling, training, key=total))
    most = ("at most about" if counted else "at least", f"{largest / GIB:.3f}", both)
    table = aligned([("part", "GiB", "how it comes about"), *rows, most])
    rest = "" if counted else "references, logits, activations, "
    return f"{table}\nNot counted: {rest}buffers, CUDA."


def fitting(plans: Callable[[Any, Launch], tuple[Parts, Parts, Parts]], args: Any, launch: Launch) -> str:
    """Return a sentence on whether a GPU of the launch holds a run whose texts have full length; "" on a CPU. Raises
    ConfigError if weights, gradients and the state of AdamW do not fit, except under ZeRO, which may offload. `plans`:
    function of config and launch that returns the persistent memory, that of sampling and that of training."""
    if launch.device != "cuda":
        return ""
    room, rows, size = room_of(launch), args.generation_rows, args.per_device_train_batch_size

    def needs(launch: Launch = launch, **changes: Any) -> tuple[float, ...]:
        """Return the state with gradients, the peak of sampling, and that of training; () if settings are refused."""
        changed = copy.copy(args)
        vars(changed).update(changes)
        try:
            check_sharing(changed)
            check_guard_scope(changed)
        except ConfigError:
            return ()
        lasting, sampling, training = plans(changed, launch)
        return total(lasting) + training["gradients (training)"][0], total(lasting, sampling), total(lasting, training)

    fewer = [max(rows >> n, 1) for n in range(1, 10)]
    sharded = [replace(launch, kind="zero3", processes=2**n) for n in range(1, 7)]
    ways: list[list[dict[str, Any]]] = [
        [{"policy_sharing": "lora"}, *({"launch": one, "guard_scope": "run"} for one in sharded)],
        [{"generation_rows": n, "per_device_eval_batch_size": min(args.per_device_eval_batch_size, n)} for n in fewer],
        [{"gradient_checkpointing": True, "per_device_train_batch_size": max(size >> n, 1)} for n in range(6)],
    ]
    found, change = needs(), dict[str, Any]()
    now = found
    for half, tried in enumerate(ways):
        if now[half] > room:
            planned = ((change | way, needs(**change | way) or found) for way in tried)
            change, now = next((one for one in planned if one[1][half] <= room), (change, now))
    used = change.pop("launch", None)
    cures = [f"{name}={value}".lower() for name, value in change.items() if value != getattr(args, name)]
    cures += [f"--accelerate_config zero3 --num_processes {used.processes}"] if used else []
    cure = " and ".join([*cures, *["more GPUs"] * (max(now) > room)])
    adam = str(getattr(args.optim, "value", args.optim)).startswith("adamw_torch")
    if found[0] > room and adam and not launch.kind.startswith("zero"):  # other states are smaller, or on the CPU
        raise ConfigError(
            f"Weights, optimizer and gradients take {found[0] / GIB:.1f} GiB, and a GPU has {room / GIB:.0f}; the "
            f"least change that fits: {cure}."
        )
    if max(found) <= room:
        return f"Fits a GPU of {room / GIB:.0f} GiB."
    return f"Texts of full length do not fit a GPU of {room / GIB:.0f} GiB; the least change: {cure}."
