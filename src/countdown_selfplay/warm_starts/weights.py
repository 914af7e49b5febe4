"""Whole weights of models that an engine shards."""

from collections.abc import Mapping
from typing import Any

import torch
from peft import PeftModel, get_peft_model
from transformers import AutoModelForCausalLM
from transformers.integrations.deepspeed import unset_hf_deepspeed_config

from ..policies.build import load_pretrained


def load_whole(path: str, kwargs: Mapping[str, Any]) -> Any:
    """Load a causal language model with all weights on each process, an adapter merged into its base. After a launch
    with ZeRO-3 has settings for a trainer, transformers would shard a model while reading it."""
    unset_hf_deepspeed_config()
    return load_pretrained(path, kwargs)


def with_weights(model: Any, state: Mapping[str, torch.Tensor]) -> Any:
    """Return a model of the architecture of the sharded `model` with the tensors of `state`, to be saved."""
    unset_hf_deepspeed_config()
    adapted = isinstance(model, PeftModel)
    base = model.get_base_model() if adapted else model
    with torch.device("meta"):
        whole: Any = AutoModelForCausalLM.from_config(base.config)
        if adapted:
            whole = get_peft_model(whole, model.active_peft_config)
    whole.load_state_dict(state, strict=False, assign=True)
    inner = whole.get_base_model() if adapted else whole
    inner.tie_weights()
    inner.generation_config = base.generation_config
    return whole
