"""Sampling without repeated or idle rows, as the `custom_generate` of transformers' `generate`: a prompt is read once
for all of its completions, the beginning that all prompts share once a batch, and a completion that has ended is no
longer in the batch."""

from __future__ import annotations

import copy
import functools
import math
from itertools import pairwise
from typing import Any

import torch
from peft import PeftModel
from transformers import generation

from ..errors import GenerationError
from .base import cut_up

SHARED_START = 32
"""Tokens from which on a beginning that all prompts share is read in a pass of its own."""

_BY_ROW = {
    generation.TemperatureLogitsWarper,
    generation.TopKLogitsWarper,
    generation.TopPLogitsWarper,
    generation.MinPLogitsWarper,
    generation.RepetitionPenaltyLogitsProcessor,
    generation.SuppressTokensLogitsProcessor,
    generation.MinNewTokensLengthLogitsProcessor,
}
"""Processors of scores that treat each row alone, whichever others are in the batch."""


def without_idle_rows(model: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments of `model.generate`, with a decoding loop that leaves out work on equal and on ended rows.

    With g the greatest common divisor of the lengths of runs of equal prompts, every g-th row is read and its cache
    and scores are repeated g times. A beginning that all prompts share (the rules of a chat prompt) is read in one
    row, if it has SHARED_START tokens or more; `input_ids` and `attention_mask` then have the padding behind it.
    The random numbers are those of transformers' own loop, so that equal seeds give equal tokens, up to the rounding
    of other batch sizes. Unchanged where the cache is not the plain growing one, for models that carry a state besides
    attention, and where no process holds whole weights or processes must make equally many steps.
    """
    ids, mask, config = arguments.get("input_ids"), arguments.get("attention_mask"), arguments.get("generation_config")
    if ids is None or mask is None or arguments.keys() - _KNOWN or not _plain(model, config):
        return arguments
    group = common_run(ids, mask)
    start = common_start(ids[::group], mask[::group])
    changed: dict[str, Any] = {"custom_generate": functools.partial(_decode, group=group)}
    if config is not None and config.stop_strings:  # generate keeps the tokenizer from loops other than its own
        changed["stopping_criteria"] = generation.StoppingCriteriaList(
            [generation.StopStringCriteria(arguments["tokenizer"], config.stop_strings)]
        )
        changed["generation_config"] = copy.copy(config)
        changed["generation_config"].stop_strings = None
    if not start:
        return {**arguments, **changed}
    ids, mask = _start_first(ids, mask, start), _start_first(mask, mask, start)
    with torch.no_grad():
        cache = model(
            input_ids=ids[:1, :start], attention_mask=mask[:1, :start], use_cache=True, logits_to_keep=1
        ).past_key_values
    if cache is None or cache.get_seq_length() != start:
        return arguments
    cache.batch_repeat_interleave(len(ids) // group)
    return {**arguments, **changed, "input_ids": ids, "attention_mask": mask, "past_key_values": cache}


_KNOWN = {"input_ids", "attention_mask", "generation_config", "tokenizer"}


def _decode(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: Any,
    stopping_criteria: Any,
    generation_config: Any,
    *,
    group: int,
    **kwargs: Any,
) -> torch.Tensor:
    """Prompts and completions, (B, prompt + the longest completion). Rows come in runs of `group` equal ones, of which
    `past_key_values` in `kwargs` has the beginning of the first, or nothing."""
    cache, mask, positions = kwargs["past_key_values"], kwargs["attention_mask"], kwargs["position_ids"]
    if any(type(processor) not in _BY_ROW for processor in logits_processor):
        cache.batch_repeat_interleave(group)
        return model._sample(input_ids, logits_processor, stopping_criteria, generation_config, **kwargs)
    given = {"past_key_values": cache, "use_cache": True, "logits_to_keep": 1}
    seen, (prompts, width) = cache.get_seq_length(), input_ids.shape
    logits_BV = model(
        input_ids=input_ids[::group, seen:],
        attention_mask=None if mask is None else mask[::group],
        position_ids=positions[::group, seen:],
        **given,
    ).logits[:, -1]
    logits_BV = logits_BV.repeat_interleave(group, 0)
    cache.batch_repeat_interleave(group)
    length = stopping_criteria.max_length
    padding = input_ids.new_full((prompts, length - width), int(generation_config._pad_token_tensor))
    output, rows, position = torch.cat([input_ids, padding], 1), torch.arange(prompts), positions[:, -1:]
    rows = rows.to(input_ids.device)
    for column in range(width, length):
        scores_BV = logits_processor(output[rows, :column], logits_BV.float())
        drawn = _drawn(scores_BV, rows, prompts) if generation_config.do_sample else scores_BV.argmax(-1)
        output[rows, column] = drawn
        going = (~stopping_criteria(output[rows, : column + 1], None)).nonzero().flatten()
        if len(going) == 0:
            return output[:, : column + 1]
        position = position + 1
        mask = mask if mask is None else torch.cat([mask, mask.new_ones(len(mask), 1)], 1)
        if len(going) < len(rows):
            rows, position = rows[going], position[going]
            mask = mask if mask is None else mask[going]
            cache.batch_select_indices(going)
        ids = output[rows, column, None]
        logits_BV = model(input_ids=ids, attention_mask=mask, position_ids=position, **given).logits[:, -1]
    return output


def _drawn(scores_BV: torch.Tensor, rows: torch.Tensor, of: int) -> torch.Tensor:
    """One token per row. Exponential races as in torch.multinomial, with the draws for all `of` rows, those that have
    ended too: what a row draws does not depend on when others ended."""
    probs_BV = scores_BV.softmax(-1)
    if not bool(torch.isfinite(probs_BV.sum())):
        raise GenerationError(
            "The model's scores of the next token are not finite (nan or inf); lower the learning rate or check the "
            "weights."
        )
    race_BV = torch.empty((of, probs_BV.size(1)), dtype=probs_BV.dtype, device=probs_BV.device).exponential_()
    return (probs_BV / (race_BV if len(rows) == of else race_BV[rows])).argmax(-1)


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
        or config.return_dict_in_generate
    ):
        return False
    base: Any = model.get_base_model() if isinstance(model, PeftModel) else model
    kinds = getattr(base.config.get_text_config(), "layer_types", None) or ["full_attention"]
    if base._is_stateful or set(kinds) != {"full_attention"} or base.config.is_encoder_decoder:
        return False
    return not cut_up(base)
