"""Sampling without repeated or idle rows, as the `custom_generate` of transformers' `generate`: a prompt is read once
for all of its completions, a beginning that all prompts share once per batch, and finished rows leave the batch.
Also a context manager that restores a model's generation config after sampling."""

from __future__ import annotations

import copy
import functools
import math
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
from transformers import Cache, GenerationConfig, generation

from .._transformers import cache_name, moved_names
from ..errors import GenerationError
from .base import cut_up
from .forward import ANSWER, Unfit, bare, left_padded, misread, padding_of, say_once, tokens

SHARED_START = 32
"""Minimum number of leading tokens common to all prompts for which these tokens are read in a separate pass."""

LOOK = 16
"""Number of tokens between two checks for finished rows on a GPU, where a check makes the host wait."""

_BY_ROW = {
    generation.TemperatureLogitsWarper,
    generation.TopKLogitsWarper,
    generation.TopPLogitsWarper,
    generation.MinPLogitsWarper,
    generation.SuppressTokensLogitsProcessor,
    generation.MinNewTokensLengthLogitsProcessor,
}
"""Logits processors that treat each row independently of the rest of the batch."""


def without_idle_rows(model: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of `model.generate` with a decoding loop that skips work on equal and finished rows.

    With g the greatest common divisor of the lengths of runs of equal prompts, every g-th row is read and its cache
    and scores are repeated g times. A beginning of SHARED_START or more tokens that all prompts share (the rules of a
    chat prompt) is read in one row; `input_ids` and `attention_mask` then have the padding behind it. The random
    numbers are those of transformers' loop, so that equal seeds give equal tokens, up to the rounding of other batch
    sizes. The arguments are returned unchanged if a setting needs more than one growing cache, if the model continues
    rows differently in this loop than alone (`misread`), if the weights are sharded, or if all processes must take the
    same number of steps.
    """
    ids, mask, config = arguments.get("input_ids"), arguments.get("attention_mask"), arguments.get("generation_config")
    if ids is None or mask is None or arguments.keys() - _KNOWN or not _plain(config) or cut_up(model):
        return arguments
    longest = ids.size(1) + (getattr(config, "max_new_tokens", 0) or 0)
    if not bool(mask.all()) and padding_of(bare(model), longest) == "apart":
        return {**arguments, "custom_generate": functools.partial(_by_length, given=arguments)}
    if why := misread(model, looped, longest):
        say_once(f"{type(bare(model)).__name__} is sampled by the slower loop of Transformers: it {why}.")
        return arguments
    return _shortened(model, arguments, SHARED_START)


_KNOWN = {"input_ids", "attention_mask", "generation_config", "tokenizer"}
Watch = Callable[[tuple[torch.Tensor, torch.Tensor]], object]


def _shortened(model: Any, arguments: dict[str, Any], shortest: int, watch: Watch | None = None) -> dict[str, Any]:
    """Return the arguments of `generate` with the loop `_decode`. `shortest`: minimum length of a common beginning
    that is read separately. `watch`: called with each step's rows and their scores."""
    ids, mask, config = arguments["input_ids"], arguments["attention_mask"], arguments.get("generation_config")
    group = common_run(ids, mask)
    start = common_start(ids[::group], mask[::group], shortest)
    own = functools.partial(_decode, group=group, given=arguments, watch=watch)
    changed: dict[str, Any] = {"custom_generate": own}
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
        output = model(input_ids=ids[:1, :start], attention_mask=mask[:1, :start], use_cache=True, logits_to_keep=1)
    _, cache = _cache_in(output)
    if cache is None or cache.get_seq_length() != start:
        return arguments
    cache.batch_repeat_interleave(len(ids) // group)
    return {**arguments, **changed, "input_ids": ids, "attention_mask": mask, cache_name(): cache}


def _by_length(model: Any, *_: Any, given: dict[str, Any], **__: Any) -> torch.Tensor:
    """Generate for prompts of one length at a time, without padding on the left."""
    ids, mask = given["input_ids"], given["attention_mask"]
    padding_B = mask.size(1) - mask.sum(1)
    parts: dict[int, torch.Tensor] = {}
    for padding in padding_B.unique().tolist():
        rows = (padding_B == padding).nonzero().flatten()
        own = {"input_ids": ids[rows, padding:], "attention_mask": mask[rows, padding:]}
        made = model.generate(**without_idle_rows(model, {**given, **own}))[:, mask.size(1) - padding :]
        parts |= dict(zip(rows.tolist(), made, strict=True))
    end = given["generation_config"].pad_token_id
    answers = torch.nn.utils.rnn.pad_sequence([parts[row] for row in range(len(ids))], True, end or 0)
    return torch.cat([ids, answers], 1)


def _cache_in(values: Mapping[str, Any]) -> tuple[str, Any]:
    """Return name and value of the cache among a model's outputs or a loop's arguments; "" and None without one."""
    return next(((name, value) for name, value in values.items() if isinstance(value, Cache)), ("", None))


def _decode(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: Any,
    stopping_criteria: Any,
    generation_config: Any,
    *,
    group: int,
    given: dict[str, Any],
    watch: Watch | None,
    **kwargs: Any,
) -> torch.Tensor:
    """Return prompts and completions, (B, prompt + longest completion). Rows come in runs of `group` equal ones; the
    cache in `kwargs` is empty or has the beginning of one row per run. `given`: the arguments of `generate` without
    this loop. A cache of fixed size, with a CUDA graph, would replace `read` and the reduction of the batch."""
    (name, cache), mask, positions = _cache_in(kwargs), kwargs.get("attention_mask"), kwargs.get("position_ids")
    if cache is None or any(type(processor) not in _BY_ROW for processor in logits_processor):
        return model.generate(**given)
    _narrow(cache, input_ids.device)
    seen, (prompts, width) = cache.get_seq_length(), input_ids.shape
    read = functools.partial(model, **{name: cache}, use_cache=True, logits_to_keep=1)
    place = {} if positions is None else {"position_ids": positions[::group, seen:]}
    first = None if mask is None else mask[::group]
    logits_BV = read(input_ids=input_ids[::group, seen:], attention_mask=first, **place).logits[:, -1]
    logits_BV = logits_BV.repeat_interleave(group, 0)
    cache.batch_repeat_interleave(group)
    length = stopping_criteria.max_length
    padding = input_ids.new_full((prompts, length - width), int(generation_config._pad_token_tensor))
    output, rows = torch.cat([input_ids, padding], 1), torch.arange(prompts, device=input_ids.device)
    mask = mask if mask is None else torch.cat([mask, mask.new_ones(prompts, length - width)], 1)
    place = {} if positions is None else {"position_ids": positions[:, -1:]}
    every, block, spared = pace(input_ids.device, length - width, prompts)
    for layer in cache.layers if mask is not None and every > 1 else ():
        layer.is_compileable = True  # else Transformers checks at every token if rows are padded
    over, lasts = rows.new_zeros(prompts, dtype=torch.bool), rows.new_full((prompts,), width)
    finite = torch.ones((), dtype=torch.bool, device=rows.device)
    for column in range(width, length):
        if watch is not None:
            watch((rows, logits_BV))
        scores_BV = logits_processor(output[rows, :column], logits_BV.float())
        drawn, sound = _drawn(scores_BV, rows, prompts if generation_config.do_sample else 0)
        output[rows, column] = torch.where(over, padding[0, 0], drawn)
        lasts, finite = lasts.masked_fill(~over, column), finite & sound
        over = over | stopping_criteria(output[rows, : column + 1], None)
        place = {key: value + 1 for key, value in place.items()}
        if (column + 1 - width) % every == 0 or column + 1 == length:
            going, last, known = torch.stack([(~over).sum(), lasts.max(), finite]).tolist()
            if not known:
                raise GenerationError(
                    "The model's scores of the next token are not finite (nan or inf); lower the learning rate or "
                    "check the weights."
                )
            if not going:
                return output[:, : last + 1]
            size = -(-going // block) * block
            if len(rows) - size >= max(len(rows) * spared, 1):
                kept = over.int().argsort(stable=True)[:size]
                # Positions are one row for all where no row has padding.
                place = {key: value[kept] if len(value) == len(rows) else value for key, value in place.items()}
                rows, over, lasts, drawn = rows[kept], over[kept], lasts[kept], drawn[kept]
                mask = mask if mask is None else mask[kept]
                cache.batch_select_indices(kept)
        seen = None if mask is None else mask[:, : column + 1]
        logits_BV = read(input_ids=drawn[:, None], attention_mask=seen, **place).logits[:, -1]
    return output


def pace(device: torch.device, tokens: int, rows: int) -> tuple[int, int, float]:
    """Return the number of tokens between two checks for finished rows, the divisor of the size of a reduced batch,
    and the minimum share of rows that a reduction removes. `tokens`: maximum number of new tokens. On a GPU a check
    makes the host wait, and batches of ever new sizes fragment the memory. On a CPU a row costs more than a check."""
    if device.type == "cpu":
        return 1, 1, 0.0
    return max(min(LOOK, tokens // 8), 1), -(-rows // 8), 0.25


def _narrow(cache: Any, device: torch.device) -> None:
    """Store the cache's keys and values in autocast's dtype if autocast is on. Attention reads them in that dtype: the
    scores are the same bit for bit, with half the memory of float32 and no cast of the whole cache at each token."""
    if not torch.is_autocast_enabled(device.type):
        return
    kind = torch.get_autocast_dtype(device.type)
    write = functools.partial(type(cache).update, weakref.proxy(cache))  # a cycle would keep the cache in memory
    for layer in cache.layers:
        if layer.is_initialized:
            layer.keys, layer.values = layer.keys.to(kind), layer.values.to(kind)
    cache.update = lambda keys, values, *args, **kwargs: write(keys.to(kind), values.to(kind), *args, **kwargs)


def _drawn(scores_BV: torch.Tensor, rows: torch.Tensor, of: int) -> tuple[torch.Tensor, torch.Tensor | bool]:
    """Sample one token per row; return the tokens, and whether all probabilities are finite. As in torch.multinomial
    the largest ratio of probability to exponential noise wins. `of`: number of rows for which noise is drawn, finished
    rows included, so that a row does not depend on when others finish; 0: return the most likely tokens and True."""
    if not of:
        return scores_BV.argmax(-1), True
    probs_BV = scores_BV.softmax(-1)
    race_BV = torch.empty((of, probs_BV.size(1)), dtype=probs_BV.dtype, device=probs_BV.device).exponential_()
    race_BV = race_BV if len(rows) == of else race_BV[rows]
    return (probs_BV / race_BV).argmax(-1), torch.isfinite(probs_BV.sum())


def common_start(ids: torch.Tensor, mask: torch.Tensor, shortest: int = SHARED_START) -> int:
    """Return the length of the common beginning of left-padded rows, at most one token less than the shortest row; 0
    if there is one row or the length is below `shortest`."""
    lengths, width = mask.sum(1), ids.size(1)
    if len(ids) == 1 or bool((mask[:, 1:] < mask[:, :-1]).any()):
        return 0
    own = [row[width - length :] for row, length in zip(ids, lengths.tolist(), strict=True)]
    most = int(lengths.min()) - 1
    differs = (torch.stack([row[:most] for row in own]) != own[0][:most]).any(0) if most > 0 else mask.new_zeros(0)
    start = int(differs.int().argmax()) if bool(differs.any()) else max(most, 0)
    return start if start >= shortest else 0


def _start_first(values: torch.Tensor, mask: torch.Tensor, start: int) -> torch.Tensor:
    """Return `values`, laid out as the left-padded `mask`, with each row's padding behind its first `start` tokens."""
    column = torch.arange(mask.size(1), device=mask.device).expand_as(mask)
    padding = (mask.size(1) - mask.sum(1, keepdim=True)).expand_as(mask)
    moved = torch.where(column < start + padding, column - start, column)
    return values.gather(1, torch.where(column < start, column + padding, moved))


def common_run(ids: torch.Tensor, mask: torch.Tensor) -> int:
    """Return the greatest common divisor of the lengths of runs of equal rows."""
    changes = ((ids[1:] != ids[:-1]) | (mask[1:] != mask[:-1])).any(1).nonzero().flatten().tolist()
    bounds = [0, *(change + 1 for change in changes), ids.size(0)]
    return math.gcd(*(end - start for start, end in pairwise(bounds)))


def _plain(config: Any) -> bool:
    """Return whether the settings need no more than one growing cache of keys and values."""
    return config is None or not (
        config.use_cache is False
        or config.cache_implementation not in (None, "dynamic")
        or (config.num_beams or 1) > 1
        or (config.num_return_sequences or 1) > 1
        or config.prefill_chunk_size is not None
        or config.return_dict_in_generate
    )


def looped(base: Any, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return log-probs from this loop and from each row alone, for `misread`. The loop has a separate beginning,
    padding behind it, and two rows per prompt, of which those of the first prompt end after one token."""
    if moved := moved_names():
        raise Unfit(f"is run by a Transformers that this version was not made for ({'; '.join(moved)})")
    first, second, _ = tokens(base, length)
    ids, mask = (part.repeat_interleave(2, 0) for part in left_padded([first, second]))
    config = generation.GenerationConfig(max_new_tokens=ANSWER, do_sample=False, pad_token_id=0, disable_compile=True)
    steps: list[tuple[torch.Tensor, torch.Tensor]] = []
    given = _shortened(base, dict(input_ids=ids, attention_mask=mask, generation_config=config), 1, steps.append)
    width = ids.size(1)
    ends = generation.StoppingCriteriaList([lambda rows, *_, **__: rows[:, width - 1] == first[-1]])
    output = base.generate(**given, stopping_criteria=ends)[:, width:]
    if [len(rows) for rows, _ in steps] != [4] + [2] * (ANSWER - 1):
        raise Unfit("keeps no cache of keys and values that grows")
    whole = [torch.cat([first, output[0]]), torch.cat([second, output[2]])]
    logits = [base(input_ids=row[None], logits_to_keep=ANSWER + 1).logits for row in whole]
    expected = torch.cat([part[:, -ANSWER - 1 :] for part in logits])
    wanted = torch.cat([expected[rows // 2, step] for step, (rows, _) in enumerate(steps)])
    return torch.cat([scores for _, scores in steps]).log_softmax(-1), wanted.log_softmax(-1)


@contextmanager
def neutral_generation(model: Any) -> Iterator[None]:
    """Reduce the model's `generation_config` to its token ids inside the block.

    `generate` would take values that its caller left unset from this config (Qwen2.5's has a repetition penalty of
    1.1; min_p, suppress_tokens and max_time have no value that means "off") and sample from another distribution than
    the one that the loss scores. The config is changed in place: wrappers (PEFT, PolicyModule) share the object.
    """
    config = getattr(model, "generation_config", None)
    if config is None:
        yield
        return
    own = dict(vars(config))
    neutral = GenerationConfig(**{n: own.get(n) for n in ("bos_token_id", "eos_token_id", "pad_token_id")})
    vars(config).clear()
    vars(config).update(vars(neutral))
    try:
        yield
    finally:
        vars(config).clear()
        vars(config).update(own)
