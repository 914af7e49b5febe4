"""A rough estimate of the memory that a configuration needs per process, before anything is loaded."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from .config import JointSelfPlayConfig

GIB = 2**30


def estimate_memory(
    model: str, args: JointSelfPlayConfig, prompt_length: int, lora_rank: int | None
) -> dict[str, float]:
    """GiB per process by part: weights, references, gradients, optimizer, KV cache, activations, and their total.

    Assumes float32 weights (mixed precision keeps them), Adam's two moments, generation of all a role's samples of a
    round at once, and with gradient checkpointing one hidden state per layer. Raises OSError if the model's config
    cannot be read.
    """
    config = AutoConfig.from_pretrained(model)
    with torch.device("meta"):
        skeleton: Any = AutoModelForCausalLM.from_config(config)
    text = config.get_text_config()
    parameters = skeleton.num_parameters()
    copies = len(args.trained_roles) if args.policy_sharing == "full" else 1
    trained = parameters * copies
    references = 0
    if args.policy_sharing == "lora" and lora_rank:
        linear = [m for m in skeleton.modules() if isinstance(m, torch.nn.Linear)]
        trained = len(args.trained_roles) * sum(lora_rank * (m.in_features + m.out_features) for m in linear)
    else:
        references = int(any(args.role(role).beta > 0 for role in args.trained_roles)) * parameters
    half = 2 if args.bf16 or args.fp16 else 4
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    head_size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    cache, activations = 0, 0
    for role in args.trained_roles:
        settings = args.role(role)
        length = prompt_length + settings.max_completion_length
        samples = args.per_device_train_batch_size * settings.micro_batches
        cache = max(cache, 2 * text.num_hidden_layers * heads * head_size * half * samples * length)
        kept = 1 if args.gradient_checkpointing else 16  # hidden-sized tensors per layer that backward needs
        batch = args.per_device_train_batch_size * length
        activations = max(activations, (text.num_hidden_layers * kept + 16) * batch * text.hidden_size * half)
    parts = {
        "weights": (parameters * copies + (trained if args.policy_sharing == "lora" else 0)) * 4,
        "references": references * 4,
        "gradients": trained * 4,
        "optimizer": trained * 8,
        "activations": activations,
        "KV cache": cache,
    }
    # The cache lives while sampling, gradients and activations while training; weights and moments always.
    peak = parts["weights"] + parts["references"] + parts["optimizer"]
    peak += max(parts["KV cache"], parts["gradients"] + parts["activations"])
    return {name: size / GIB for name, size in parts.items()} | {"peak": peak / GIB}
