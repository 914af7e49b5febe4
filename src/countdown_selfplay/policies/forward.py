"""Forward pass that scores completions without work on unscored tokens, and a test of layouts: once per model, a
causal LM reads two rows of unequal lengths and with a common beginning, in each layout of rows that this library uses
and each row alone, and the results are compared.

Whether a model reads a layout correctly depends on its code and config: learned or absent position ids, ignored masks,
a recurrent state, a cache of another kind. A few tokens show such faults. A sliding window counts columns, padding
included, and shows only on rows longer than the window; the test has such rows if the config names a span shorter than
the caller's rows.
"""

from __future__ import annotations

import functools
import logging
import re
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from weakref import WeakKeyDictionary

import torch
from peft import PeftModel
from transformers import GenerationConfig
from transformers.integrations import is_deepspeed_zero3_enabled

from .. import _trl
from ..errors import ConfigError
from ..random_state import private_generator
from .base import cut_up, evaluating

logger = logging.getLogger(__name__)

SHORT, ANSWER = 16, 3
"""Numbers of tokens of the longer test row, and of its answer."""
Layout = Callable[[Any, int], tuple[torch.Tensor, torch.Tensor]]
"""Function (causal LM, length of the longer row) -> results of rows in the layout, and of each row alone, (..., V)."""
_SPAN = re.compile("(window|chunk|local|block|stride|span|max_position)(?!.*(layers|experts)$)")
_found: dict[tuple[object, ...], str] = {}
_found_of: WeakKeyDictionary[Any, dict[tuple[object, ...], str]] = WeakKeyDictionary()


class Unfit(Exception):
    """Exception of a layout that cannot be tested; its text is a phrase that follows the model's name."""


def misread(model: Any, layout: Layout, longest: int = 0) -> str:
    """Return the reason why `model` reads rows in this layout differently from each row alone, a phrase that follows
    its name; "" if the results agree or the weights are sharded. `longest`: length of the caller's longest row."""
    base = bare(model)
    if cut_up(base) or is_deepspeed_zero3_enabled():  # before sharding, TRL's head would gather whole weights
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
    """Return a causal LM without PEFT's wrapper; of a PolicyModule, the active model."""
    acting = getattr(model, "policy", model)
    return acting.get_base_model() if isinstance(acting, PeftModel) else acting


@functools.cache
def say_once(sentence: str) -> None:
    logger.warning(sentence)


def _measured(base: Any, layout: Layout, length: int) -> str:
    try:
        with _undisturbed(base):
            found, expected = layout(base, length)
    except Unfit as error:
        return str(error)
    except Exception as error:  # a model without support for the layout may raise any
        first = (str(error).strip().splitlines() or [""])[0][:100]
        return f"cannot read rows that are laid out together ({type(error).__name__}: {first})"
    gap = difference(found.flatten(0, -2), expected.flatten(0, -2))
    return f"reads rows that are laid out together otherwise than each alone (by {gap:.2g})" if gap else ""


def _spans_of(base: Any) -> list[int]:
    """Return the lengths that the config names for parts of a row: windows, chunks, blocks, scaled positions."""
    return [
        value
        for name, value in vars(base.config.get_text_config()).items()
        if _SPAN.search(name) and type(value) is int and value > 1
    ]


@contextmanager
def _undisturbed(base: Any) -> Iterator[None]:
    """Set evaluation mode without gradients inside the block; restore modes, generators, config and mixed passes."""
    mixed, config = getattr(base, "mixed", None), {"generation_config": GenerationConfig()}
    unmixed = nullcontext() if mixed is None else _trl.swapped(mixed, {"owner_B": None})
    seeded = private_generator(base.device, "reading")
    with evaluating(base), _trl.swapped(base, config), unmixed, seeded, torch.no_grad():
        yield


def tokens(base: Any, length: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return two prompts with a common beginning, the second one shorter, and their answers, (2, ANSWER)."""
    count = base.get_input_embeddings().num_embeddings
    ids = (1 + torch.arange(2 * length) * 5 % (count - 1)).to(base.device)
    start, end = length // 2, length - ANSWER
    second = torch.cat([ids[:start], ids[length : length + max((end - start) // 2, 1)]])
    second[-1] = 1 + ids[end - 1] % (count - 1)  # differs from the first prompt's last token
    return ids[:end], second, ids[end : end + 2 * ANSWER].view(2, ANSWER)


def states(base: Any, **given: Any) -> torch.Tensor:
    """Return the last tokens' hidden states, (rows, ANSWER + 1, H), from which the loss computes log-probs."""
    found: torch.Tensor = base.base_model(**given).last_hidden_state
    return found[:, -ANSWER - 1 :]


def alone(base: Any, rows: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([states(base, input_ids=row[None]) for row in rows])


def left_padded(rows: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(map(len, rows))
    ids = torch.stack([torch.cat([row.new_zeros(width - len(row)), row]) for row in rows])
    lengths = torch.tensor([[len(row)] for row in rows], device=ids.device)
    return ids, (torch.arange(width, device=ids.device) >= width - lengths).long()


def padded(base: Any, length: int, **more: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return hidden states of left-padded rows, as in the loss, and of each row alone, for `misread`."""
    first, second, answers = tokens(base, length)
    rows = [torch.cat([first, answers[0]]), torch.cat([second, answers[1]])]
    ids, mask = left_padded(rows)
    given = {name: make(mask) for name, make in more.items()}
    return states(base, input_ids=ids, attention_mask=mask, **given), alone(base, rows)


def positions_of(mask: torch.Tensor) -> torch.Tensor:
    """Return each token's position in its row, padding not counted; 0 on padding."""
    return (mask.long().cumsum(1) - 1).clamp(min=0)


placed = functools.partial(padded, position_ids=positions_of)
"""Layout of `padded` with position ids, for `misread`."""


def padding_of(base: Any, longest: int) -> str:
    """Return the way in which the model reads rows of unequal lengths correctly: "plain", as TRL does; "placed", with
    position ids; "apart", one pass per length, if it reads neither correctly."""
    if not misread(base, padded, longest):
        return "plain"
    if not (why := misread(base, placed, longest)):
        return "placed"
    say_once(f"Prompts of each length go through {type(base).__name__} in separate passes: it {why}.")
    return "apart"


def difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the largest relative difference in the last columns that both tensors have; 0 if due to rounding."""
    width = min(found.size(1), expected.size(1))
    gap = (found[:, -width:] - expected[:, -width:]).detach().abs() / (1 + expected[:, -width:].abs())
    half = torch.is_autocast_enabled(found.device.type) or found.dtype in (torch.float16, torch.bfloat16)
    half |= found.is_cuda and torch.get_float32_matmul_precision() != "highest"  # TF32 has bfloat16's rounding, nearly
    wrong = float(gap.mean()) > 0.02 if half else not float(gap.max()) <= 1e-3
    return float(gap.max()) if wrong else 0.0


_PER_TOKEN = ("log_probs", "entropy", "log_sum_sq_probs", "mean_logits", "is_top1")


class Watched:
    """Wrapper of a model with a fused head that records which tokens were the most likely ones (`top1`)."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.top1: list[torch.Tensor] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        output = self.model(*args, **kwargs)
        self.top1.append(output.is_top1)
        return output

    def top1_BT(self, length: int) -> torch.Tensor:
        """Return 1 where a token of the last `length` columns was the most likely one, else 0, (B, length)."""
        return torch.cat([part[:, -length:] for part in self.top1]).detach()


def scored_at(model: Any, temperature: float, top1: bool = False) -> None:
    """Patch a causal LM with TRL's fused head at `temperature`, check the head (`check_head`), and skip unscored
    tokens. `top1`: as in `_trl.patch_lm_head`."""
    _trl.patch_lm_head(model, temperature, top1)
    check_head(model, temperature)
    score_completions_only(model)


def check_head(model: Any, temperature: float) -> None:
    """Raise ConfigError if the log-probs of the fused head differ from the model's: the head assumes that logits are
    the product of hidden states and output embeddings, up to a scale that some configs set."""
    if misread(model, _headed(temperature)):
        raise ConfigError(
            f"{type(model).__name__} makes its scores by more than its output embeddings, which TRL's fused head does "
            "not know; train a model whose head is one linear layer."
        )


@functools.cache
def _headed(temperature: float) -> Layout:
    def headed(base: Any, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        ids = tokens(base, length)[0][None]
        found = base(input_ids=ids, labels=ids, fused_lm_head=True).log_probs[0]
        expected = (base(input_ids=ids).logits[0, :-1].float() / temperature).log_softmax(-1)
        kind = base.get_output_embeddings().weight.dtype
        return found[:, None].to(kind), expected.gather(1, ids[0, 1:, None]).to(kind)

    return headed


def score_completions_only(model: Any) -> None:
    """Make a model with TRL's fused LM head skip unscored tokens; the results of scored tokens are the same. On a CPU,
    prompt columns skip the LM head, which TRL applies to all of them; log_probs then has only the columns from the
    first scored one on. With `model.padding_free`, rows are concatenated without padding and attention separates them
    by their positions, as in TRL's SFTTrainer (see `allow_padding_free`). `model.shared_prefix` and `model.mixed`: see
    shared_prefix.py and mixed_adapters.py."""
    original = model.forward
    vocabulary = int(model.config.get_text_config().vocab_size)
    model.padding_free, model.shared_prefix, model.mixed = False, None, None

    def fused(**kwargs: Any) -> Any:
        with _trl.tile_of(vocabulary):
            return original(**kwargs)

    @functools.wraps(original)  # generate checks its arguments against the signature
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        labels = kwargs.get("labels")
        if not kwargs.get("fused_lm_head") or labels is None or args:
            return original(*args, **kwargs)
        if self.padding_free and kwargs.get("attention_mask") is not None:
            return _packed(fused, kwargs)
        if self.shared_prefix is not None and kwargs.get("attention_mask") is not None:
            output = self.shared_prefix.score(self, fused, kwargs)
            if output is not None:
                return output
        return _plain_scores(self, fused, kwargs)

    model.forward = types.MethodType(forward, model)


def _plain_scores(model: Any, fused: Any, kwargs: dict[str, Any]) -> Any:
    labels = kwargs["labels"]
    if model.mixed is not None:
        kwargs = model.mixed.positioned(kwargs)
    mask, way = kwargs.get("attention_mask"), padding_of(model, labels.size(1))
    if mask is not None and way == "placed":
        kwargs = kwargs | {"position_ids": positions_of(mask)}
    elif mask is not None and way == "apart" and not bool(mask[:, 0].all()):
        return _by_length(functools.partial(_plain_scores, model, fused), kwargs)
    if labels.device.type != "cpu":
        return fused(**kwargs)
    start = max(int((labels != -100).any(0).int().argmax()) - 1, 0)
    with states_changed(model, lambda states: states[:, start:]):
        return fused(**{**kwargs, "labels": labels[:, start:]})


@contextmanager
def states_changed(model: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """Apply `change` to the hidden states that the LM head gets, inside the block."""

    def hook(module: Any, arguments: Any, output: Any) -> Any:
        output.last_hidden_state = change(output.last_hidden_state)
        return output

    handle = model.base_model.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def _by_length(score: Any, kwargs: dict[str, Any]) -> Any:
    """Score rows of equal left padding together, without the padding; return the columns that all outputs have."""
    padding_B = (kwargs["attention_mask"] == 0).cumprod(1).sum(1)
    found, order = [], []
    for padding in padding_B.unique().tolist():
        rows = (padding_B == padding).nonzero().flatten()
        order.append(rows)
        found.append(score({k: v[rows, padding:] if torch.is_tensor(v) else v for k, v in kwargs.items()}))
    width, back = min(part.log_probs.size(1) for part in found), torch.cat(order).argsort()
    for name in _PER_TOKEN:
        if found[0].get(name) is not None:
            found[0][name] = torch.cat([part[name][:, -width:] for part in found])[back]
    return found[0]


def _packed(fused: Any, kwargs: dict[str, Any]) -> Any:
    """Score the rows' tokens as one row without padding; return outputs in the layout of the rows, 0 on padding."""
    mask = kwargs["attention_mask"].bool()
    positions = positions_of(mask)
    labels = kwargs["labels"].masked_fill(positions == 0, -100)  # no token is predicted from another row's last one
    packed = {name: value for name, value in kwargs.items() if name != "attention_mask"} | {
        "input_ids": kwargs["input_ids"][mask][None],
        "position_ids": positions[mask][None],
        "labels": labels[mask][None],
    }

    def apart(value: torch.Tensor) -> torch.Tensor:
        flat = torch.cat([value.new_zeros(1), value[0]])  # the first token of all has no prediction
        return value.new_zeros(mask.shape).masked_scatter(mask, flat)[:, 1:]

    return laid_back(fused(**packed), apart)


def laid_back(output: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Apply `change`, which restores the layout of the rows, to the per-token results of TRL's head."""
    for name in _PER_TOKEN:
        if output.get(name) is not None:
            output[name] = change(output[name])
    return output


def heads_in(module: Any) -> list[Any]:
    """Return the causal LMs in `module` with TRL's head (`score_completions_only`)."""
    return [part for part in module.modules() if "shared_prefix" in vars(part)]


def allow_padding_free(model: Any) -> None:
    """Set `padding_free` on all causal LMs in `model`. Raises ConfigError if one does not separate packed rows."""
    for head in heads_in(model):
        kind = str(head.config._attn_implementation)
        if not kind.startswith("flash_attention") or head._is_stateful:
            raise ConfigError(
                f"`padding_free` needs an attention that keeps packed rows apart, and {type(head).__name__} runs "
                f"'{kind}'; pass model_init_kwargs={{'attn_implementation': 'flash_attention_2'}}, or leave it off."
            )
        head.padding_free = True
