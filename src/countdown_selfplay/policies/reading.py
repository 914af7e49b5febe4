"""How a causal LM reads rows that are laid out together, measured once a model: two rows of unlike lengths and one
beginning, in each layout that this library makes of rows, against each row alone.

What a layout may get wrong depends on the code of a model and on its config: positions that are learned or are not
given, masks that are not read, a state besides attention, a cache of another kind. It shows on a few tokens. A window
counts columns, padding among them, and shows on rows that are longer than it is: the rows are, where the config names
a span that is shorter than the caller's rows.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from peft import PeftModel
from transformers import GenerationConfig
from transformers.integrations import is_deepspeed_zero3_enabled

from .. import _trl
from ..random_state import private_generator
from .base import cut_up

logger = logging.getLogger(__name__)

SHORT, ANSWER = 16, 3
"""Tokens of the longer row, and of its answer."""
Layout = Callable[[Any, int], tuple[torch.Tensor, torch.Tensor]]
"""(causal LM, tokens of the longer row) -> numbers of the rows in that layout, and of each alone, (..., V) both."""
_SPAN = re.compile("(window|chunk|local|block|stride|span|max_position)(?!.*(layers|experts)$)")
_found: dict[tuple[object, ...], str] = {}
_found_of: WeakKeyDictionary[Any, dict[tuple[object, ...], str]] = WeakKeyDictionary()


class Unfit(Exception):
    """A layout that cannot be tried, and why: a phrase after a model's name."""


def misread(model: Any, layout: Layout, longest: int = 0) -> str:
    """Why `model` reads rows in this layout otherwise than each alone, a phrase after its name; "" if it does not, and
    where no process holds whole weights. `longest`: tokens of the caller's longest row."""
    base = bare(model)
    if cut_up(base) or is_deepspeed_zero3_enabled():  # before the cut TRL's head would gather what is whole
        return ""
    place = next(base.parameters())
    span = max((s for s in _spans_of(base) if s < longest), default=0)
    length = min(2 * span, 1 << (longest - 1).bit_length()) if span else SHORT
    key = (layout, length, place.device, place.dtype, torch.is_autocast_enabled(place.device.type))
    known = _found_of.setdefault(base, {})
    if key not in known:
        config: Any = base.config
        same = (type(base), config.to_json_string(), config._attn_implementation, *key)
        if same not in _found:
            _found[same] = _measured(base, layout, max(SHORT, length))
        known[key] = _found[same]
    return known[key]


def bare(model: Any) -> Any:
    """A causal LM without PEFT's wrapper."""
    return model.get_base_model() if isinstance(model, PeftModel) else model


@functools.cache
def say_once(sentence: str) -> None:
    logger.warning(sentence)


def _measured(base: Any, layout: Layout, length: int) -> str:
    try:
        with _undisturbed(base):
            found, expected = layout(base, length)
    except Unfit as error:
        return str(error)
    except Exception as error:  # whatever a model does that is not made for it
        first = (str(error).strip().splitlines() or [""])[0][:100]
        return f"cannot read rows that are laid out together ({type(error).__name__}: {first})"
    gap = difference(found.flatten(0, -2), expected.flatten(0, -2))
    return f"reads rows that are laid out together otherwise than each alone (by {gap:.2g})" if gap else ""


def _spans_of(base: Any) -> list[int]:
    """Lengths that the config names for a part of the rows: windows, chunks, blocks, stretched positions."""
    return [
        value
        for name, value in vars(base.config.get_text_config()).items()
        if _SPAN.search(name) and type(value) is int and value > 1
    ]


@contextmanager
def _undisturbed(base: Any) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards modes, generators, config and mixed passes are as before."""
    training = [part for part in base.modules() if part.training]
    mixed = getattr(base, "mixed", None)
    rows = None if mixed is None else mixed.rows
    config = {"generation_config": GenerationConfig()}
    try:
        for part in training:
            part.training = False
        if mixed is not None:
            mixed.rows = None
        with _trl.swapped(base, config), private_generator(base.device, "reading"), torch.no_grad():
            yield
    finally:
        for part in training:
            part.training = True
        if mixed is not None:
            mixed.rows = rows


def tokens(base: Any, length: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Two prompts with one beginning, of which the second is shorter, and the answers to them, (2, ANSWER)."""
    count = base.get_input_embeddings().num_embeddings
    ids = (1 + torch.arange(2 * length) * 5 % (count - 1)).to(base.device)
    start, end = length // 2, length - ANSWER
    second = torch.cat([ids[:start], ids[length : length + max((end - start) // 2, 1)]])
    second[-1] = 1 + ids[end - 1] % (count - 1)  # not the first one's
    return ids[:end], second, ids[end : end + 2 * ANSWER].view(2, ANSWER)


def states(base: Any, **given: Any) -> torch.Tensor:
    """(rows, ANSWER + 1, hidden): what the loss makes its scores of, at the last tokens."""
    found: torch.Tensor = base.base_model(**given).last_hidden_state
    return found[:, -ANSWER - 1 :]


def alone(read: Callable[..., torch.Tensor], base: Any, rows: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([read(base, input_ids=row[None]) for row in rows])


def left_padded(rows: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(map(len, rows))
    ids = torch.stack([torch.cat([row.new_zeros(width - len(row)), row]) for row in rows])
    lengths = torch.tensor([[len(row)] for row in rows], device=ids.device)
    return ids, (torch.arange(width, device=ids.device) >= width - lengths).long()


def padded(base: Any, length: int, **more: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The layout of the loss: padding on the left."""
    first, second, answers = tokens(base, length)
    rows = [torch.cat([first, answers[0]]), torch.cat([second, answers[1]])]
    ids, mask = left_padded(rows)
    given = {name: make(mask) for name, make in more.items()}
    return states(base, input_ids=ids, attention_mask=mask, **given), alone(states, base, rows)


def placed(base: Any, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The same, with position ids."""
    return padded(base, length, position_ids=positions_of)


def padding_of(base: Any, longest: int) -> str:
    """How rows of unlike lengths are read right: "plain", as TRL does; "placed", with position ids, where these are
    learned; "apart", each length in a pass of its own, where the model reads neither."""
    if not misread(base, padded, longest):
        return "plain"
    if not (why := misread(base, placed, longest)):
        return "placed"
    say_once(f"Prompts of each length go through {type(base).__name__} in separate passes: it {why}.")
    return "apart"


def positions_of(mask: torch.Tensor) -> torch.Tensor:
    """Each token's place in its own row; 0 on padding."""
    return (mask.long().cumsum(1) - 1).clamp(min=0)


def difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference of log-probs of the columns that both have, if it is more than rounding; else 0."""
    width = min(found.size(1), expected.size(1))
    gap = (found[:, -width:] - expected[:, -width:]).detach().abs() / (1 + expected[:, -width:].abs())
    half = torch.is_autocast_enabled(found.device.type) or found.dtype in (torch.float16, torch.bfloat16)
    half |= found.is_cuda and torch.get_float32_matmul_precision() != "highest"  # TF32 has bfloat16's rounding, nearly
    wrong = float(gap.mean()) > 0.02 if half else not float(gap.max()) <= 1e-3
    return float(gap.max()) if wrong else 0.0
