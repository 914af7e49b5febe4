"""The forward pass that scores completions, without the work on tokens that nobody asks about; and one that reads a
prompt once for all of its completions, and once the beginning that all prompts share."""

from __future__ import annotations

import functools
import math
import types
from itertools import pairwise
from typing import Any

import torch
from peft import PeftModel

from .. import _trl
from ..errors import ConfigError
from .base import cut_up

_PER_TOKEN = ("log_probs", "entropy", "log_sum_sq_probs", "mean_logits", "is_top1")


class Watched:
    """Calls a model with a fused head as it is, and keeps which tokens were the likeliest (`top1`)."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.top1: list[torch.Tensor] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        output = self.model(*args, **kwargs)
        self.top1.append(output.is_top1)
        return output

    def top1_BT(self, length: int) -> torch.Tensor:
        """1 where a token of the last `length` columns was the likeliest."""
        return torch.cat([part[:, -length:] for part in self.top1]).detach()


def scored_at(model: Any, temperature: float, top1: bool = False) -> None:
    """Give a causal LM the fused head that the trainer's forward pass asks for, at the role's temperature. top1: as in
    `_trl.patch_lm_head`."""
    _trl.patch_lm_head(model, temperature, top1)
    score_completions_only(model)


def score_completions_only(model: Any) -> None:
    """Let a model with TRL's fused LM head skip what is not scored; what it returns for scored tokens is the same.
    Prompt columns skip the LM head where TRL's head would score them all (on a CPU: a large part of the pass);
    log_probs then has only the columns from the first scored one on, the last ones that a caller keeps. With
    `model.padding_free` set, rows are laid end to end without their padding and attention keeps them apart by their
    positions, as in TRL's SFTTrainer (see `allow_padding_free`). `model.shared_prefix`: see shared_prefix.py."""
    fused = model.forward
    model.padding_free, model.shared_prefix = False, None

    @functools.wraps(fused)  # generate checks its arguments against the signature
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        labels = kwargs.get("labels")
        if not kwargs.get("fused_lm_head") or labels is None or args:
            return fused(*args, **kwargs)
        if self.padding_free and kwargs.get("attention_mask") is not None:
            return _packed(fused, kwargs)
        plain = functools.partial(_plain_scores, self, fused)
        if self.shared_prefix is not None and kwargs.get("attention_mask") is not None:
            output = self.shared_prefix.score(self, fused, plain, kwargs)
            if output is not None:
                return output
        return plain(kwargs)

    model.forward = types.MethodType(forward, model)


def _plain_scores(model: Any, fused: Any, kwargs: dict[str, Any]) -> Any:
    labels = kwargs["labels"]
    if labels.device.type != "cpu":
        return fused(**kwargs)
    start = max(int((labels != -100).any(0).int().argmax()) - 1, 0)
    handle = model.base_model.register_forward_hook(functools.partial(_cut, start))
    try:
        return fused(**{**kwargs, "labels": labels[:, start:]})
    finally:
        handle.remove()


def _cut(start: int, module: Any, arguments: Any, output: Any) -> Any:
    output.last_hidden_state = output.last_hidden_state[:, start:]
    return output


def _packed(fused: Any, kwargs: dict[str, Any]) -> Any:
    """The rows' own tokens in one row; outputs are put back where they belong, 0 on padding."""
    mask = kwargs["attention_mask"].bool()
    positions = (mask.long().cumsum(1) - 1).clamp(min=0)
    labels = kwargs["labels"].masked_fill(positions == 0, -100)  # no token is predicted from another row's last one
    packed = {name: value for name, value in kwargs.items() if name != "attention_mask"} | {
        "input_ids": kwargs["input_ids"][mask][None],
        "position_ids": positions[mask][None],
        "labels": labels[mask][None],
    }
    output = fused(**packed)
    for name in _PER_TOKEN:
        value = output.get(name)
        if value is not None:
            flat = torch.cat([value.new_zeros(1), value[0]])  # the first token of all has no prediction
            output[name] = value.new_zeros(mask.shape).masked_scatter(mask, flat)[:, 1:]
    return output


def allow_padding_free(model: Any) -> None:
    """Set `padding_free` on every causal LM inside `model`. ConfigError if one of them mixes packed rows up."""
    heads = [m for m in model.modules() if "forward" in vars(m) and hasattr(m, "config") and hasattr(m, "base_model")]
    for head in heads:
        kind = str(head.config._attn_implementation)
        if not kind.startswith("flash_attention") or head._is_stateful:
            raise ConfigError(
                f"`padding_free` needs an attention that keeps packed rows apart, and {type(head).__name__} runs "
                f"'{kind}'; pass model_init_kwargs={{'attn_implementation': 'flash_attention_2'}}, or leave it off."
            )
        head.padding_free = True


def with_shared_prefix(model: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments of `model.generate`, with `past_key_values` of what rows share: keys and values are
    computed once and repeated, where `generate` would compute them per row.

    A beginning that all prompts share (the rules of a chat prompt) is read in one row, if it has SHARED_START tokens
    or more; `input_ids` and `attention_mask` then have the padding behind it. With g the greatest common divisor of
    the lengths of runs of equal rows, every g-th row is read up to its last token, and its cache repeated g times.
    Sampling is the same up to the rounding of another batch size. Unchanged where there is nothing to share (no such
    beginning, and g = 1 or prompts of one token), where the cache is not the plain growing one, for models that carry
    a state besides attention, and where no process holds whole weights (the processes would run different numbers of
    forward passes).
    """
    ids, mask, config = arguments.get("input_ids"), arguments.get("attention_mask"), arguments.get("generation_config")
    if ids is None or mask is None or ids.size(1) < 2 or "past_key_values" in arguments or not _plain(model, config):
        return arguments
    group = common_run(ids, mask)
    start = common_start(ids[::group], mask[::group])
    if group == 1 and start == 0:
        return arguments
    if start:
        ids, mask = _start_first(ids, mask, start), _start_first(mask, mask, start)
    first, seen = ids[::group], mask[::group]
    parts = [(slice(0, 1), 0, start)] if start else []
    if group > 1 and first.size(1) - 1 > start:
        parts.append((slice(None), start, first.size(1) - 1))
    cache: Any = None
    for rows, begin, end in parts:
        if cache is not None:
            cache.batch_repeat_interleave(len(first))
        with torch.no_grad():
            cache = model(
                input_ids=first[rows, begin:end],
                attention_mask=seen[rows, :end],
                position_ids=(seen[rows, :end].long().cumsum(1) - 1).clamp(min=0)[:, begin:],
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            ).past_key_values
        if cache is None or cache.get_seq_length() != end:
            return arguments
    cache.batch_repeat_interleave(group if len(parts) > (start > 0) else len(ids))
    return {**arguments, "input_ids": ids, "attention_mask": mask, "past_key_values": cache}


SHARED_START = 32
"""Tokens from which on a beginning that all prompts share is read in a pass of its own."""


def common_start(ids: torch.Tensor, mask: torch.Tensor) -> int:
    """With how many equal tokens all left-padded rows begin, none of them whole; 0 for one row and below
    SHARED_START."""
    lengths, width = mask.sum(1), ids.size(1)
    if len(ids) == 1 or bool((mask[:, 1:] < mask[:, :-1]).any()):
        return 0
    own = [row[width - length :] for row, length in zip(ids, lengths.tolist(), strict=True)]
    most = int(lengths.min()) - 1
    differs = (torch.stack([row[:most] for row in own]) != own[0][:most]).any(0) if most > 0 else mask.new_zeros(0)
    start = int(differs.int().argmax()) if bool(differs.any()) else max(most, 0)
    return start if start >= SHARED_START else 0


def _start_first(values: torch.Tensor, mask: torch.Tensor, start: int) -> torch.Tensor:
    """`values`, laid out like the left-padded `mask`, with each row's padding behind its first `start` tokens."""
    column = torch.arange(mask.size(1), device=mask.device).expand_as(mask)
    padding = (mask.size(1) - mask.sum(1, keepdim=True)).expand_as(mask)
    moved = torch.where(column < start + padding, column - start, column)
    return values.gather(1, torch.where(column < start, column + padding, moved))


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
    base: Any = model.get_base_model() if isinstance(model, PeftModel) else model
    kinds = getattr(base.config.get_text_config(), "layer_types", None) or ["full_attention"]
    if base._is_stateful or set(kinds) != {"full_attention"} or base.config.is_encoder_decoder:
        return False
    return not cut_up(base)
