"""The forward pass that scores completions, without the work on tokens that nobody asks about."""

from __future__ import annotations

import functools
import types
from typing import Any

import torch

from .. import _trl
from ..errors import ConfigError
from .reading import Layout, misread, padding_of, positions_of, tokens

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
    check_head(model, temperature)
    score_completions_only(model)


def check_head(model: Any, temperature: float) -> None:
    """ConfigError if the fused head scores tokens otherwise than the model does: it takes logits to be a product of
    hidden states and output embeddings, times what a few configs say."""
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
    """Let a model with TRL's fused LM head skip what is not scored; what it returns for scored tokens is the same.
    Prompt columns skip the LM head where TRL's head would score them all (on a CPU: a large part of the pass);
    log_probs then has only the columns from the first scored one on, the last ones that a caller keeps. With
    `model.padding_free` set, rows are laid end to end without their padding and attention keeps them apart by their
    positions, as in TRL's SFTTrainer (see `allow_padding_free`). `model.shared_prefix` and `model.mixed`: see
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
    handle = model.base_model.register_forward_hook(functools.partial(_cut, start))
    try:
        return fused(**{**kwargs, "labels": labels[:, start:]})
    finally:
        handle.remove()


def _by_length(score: Any, kwargs: dict[str, Any]) -> Any:
    """Rows with equally much padding on the left together, without it; of outputs the columns that all have."""
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


def _cut(start: int, module: Any, arguments: Any, output: Any) -> Any:
    output.last_hidden_state = output.last_hidden_state[:, start:]
    return output


def _packed(fused: Any, kwargs: dict[str, Any]) -> Any:
    """The rows' own tokens in one row; outputs are put back where they belong, 0 on padding."""
    mask = kwargs["attention_mask"].bool()
    positions = positions_of(mask)
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
