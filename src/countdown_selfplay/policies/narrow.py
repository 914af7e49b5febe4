"""Conversion of frozen linear layers to bf16 under bf16 autocast, which otherwise casts them again at every call."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from transformers import PreTrainedModel


class NarrowLinear(nn.Linear):
    """Frozen linear layer in bf16, with the outputs and gradients of the float32 layer under autocast, bit for bit.
    The state dict has the float32 values, so that exports do not change. `exact`: name -> float32 tensor, on the CPU,
    of weights that bf16 does not represent exactly."""

    exact: dict[str, torch.Tensor]

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if torch.is_autocast_enabled(input.device.type):
            return super().forward(input)
        bias = None if self.bias is None else self.bias.to(input.dtype)
        return F.linear(input, self.weight.to(input.dtype), bias)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, value in self.exact.items():  # unless the values have changed since
            if torch.equal(value.bfloat16(), getattr(self, name).detach().cpu()):
                destination[prefix + name] = value


def frozen_linears(module: nn.Module) -> list[nn.Linear]:
    """Return a module's frozen float32 linear layers, except LM heads, which may be tied to embeddings."""
    heads = [part.get_output_embeddings() for part in module.modules() if isinstance(part, PreTrainedModel)]
    return [
        part
        for part in module.modules()
        if type(part) is nn.Linear
        and not any(part is head for head in heads)
        and not any(p.requires_grad or p.dtype != torch.float32 for p in part.parameters())
    ]


@torch.no_grad()
def narrow(module: nn.Module) -> nn.Module:
    """Convert the `frozen_linears` of `module` to bf16 in place."""
    for layer in frozen_linears(module):
        whole = {name: p.data for name, p in layer.named_parameters()}
        layer.bfloat16()
        layer.__class__ = NarrowLinear
        halves = dict(layer.named_parameters())
        layer.exact = {n: w.cpu() for n, w in whole.items() if not torch.equal(halves[n].float(), w)}  # type: ignore
    return module
