"""Sampling several completions of one prompt reads the prompt once: its keys and values are computed per distinct
prompt and repeated, where `generate` would compute them per row."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import torch

from .base import cut_up


def with_shared_prefix(model: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments of `model.generate`, with `past_key_values` of all prompt tokens but the last.

    Rows that ask for the same prompt lie side by side in runs; with g the greatest common divisor of the runs' lengths
    every g-th row is read and its cache repeated g times. Sampling is the same up to the rounding of another batch
    size. Unchanged where there is nothing to share (g = 1, prompts of one token), where the cache is not the plain
    growing one, for models that carry a state besides attention, and where no process holds whole weights (the
    processes would run different numbers of forward passes).
    """
    ids, mask, config = arguments.get("input_ids"), arguments.get("attention_mask"), arguments.get("generation_config")
    if ids is None or mask is None or ids.size(1) < 2 or "past_key_values" in arguments or not _plain(model, config):
        return arguments
    group = common_run(ids, mask)
    if group == 1:
        return arguments
    first, seen = ids[::group, :-1], mask[::group, :-1]
    with torch.no_grad():
        read = model(
            input_ids=first,
            attention_mask=seen,
            position_ids=(seen.long().cumsum(1) - 1).clamp(min=0),
            use_cache=True,
            logits_to_keep=1,
        )
    cache = read.past_key_values
    if cache is None or cache.get_seq_length() != first.size(1):
        return arguments
    cache.batch_repeat_interleave(group)
    return {**arguments, "past_key_values": cache}


def common_run(ids: torch.Tensor, mask: torch.Tensor) -> int:
    """The greatest common divisor of the lengths of runs of equal rows."""
    changes = ((ids[1:] != ids[:-1]) | (mask[1:] != mask[:-1])).any(1).nonzero().flatten().tolist()
    bounds = [0, *(change + 1 for change in changes), ids.size(0)]
    return math.gcd(*(end - start for start, end in pairwise(bounds)))


def _plain(model: Any, config: Any) -> bool:
    """Does generate grow a plain cache of keys and values, on weights that this process holds?"""
    if config is not None and (
        config.use_cache is False
        or config.cache_implementation not in (None, "dynamic")
        or (config.num_beams or 1) > 1
        or (config.num_return_sequences or 1) > 1
        or config.prefill_chunk_size is not None
    ):
        return False
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    kinds = getattr(base.config.get_text_config(), "layer_types", None) or ["full_attention"]
    if getattr(base, "_is_stateful", False) or set(kinds) != {"full_attention"} or base.config.is_encoder_decoder:
        return False
    return not cut_up(base)
