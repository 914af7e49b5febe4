"""Compilation of decoder layers by `torch.compile` with symbolic sizes, so that micro-batches of any shape, and layers
of one type, share their graphs. Only passes with gradients are compiled; sampling, references, evaluation, and the
names of modules and weights are unchanged."""

from __future__ import annotations

import functools
import logging
import types
from typing import Any

import torch
from torch import nn

from .._transformers import CACHE_NAMES
from .forward import heads_in

logger = logging.getLogger(__name__)


def _compile(layer: Any, failed: list[str], **options: Any) -> None:
    """Compile a layer's `forward`. If a layer fails, its error is added to `failed` and all layers run uncompiled."""
    plain, compiled = layer.forward, torch.compile(layer.forward, dynamic=True, **options)

    @functools.wraps(plain)
    def forward(_: Any, *args: Any, **kwargs: Any) -> Any:
        if failed or not torch.is_grad_enabled() or any(kwargs.get(n) is not None for n in CACHE_NAMES):
            return plain(*args, **kwargs)
        try:
            return compiled(*args, **kwargs)
        except torch._dynamo.exc.TorchDynamoException as error:
            failed.append(str(error).strip().splitlines()[0])
            logger.warning("`torch_compile` is not used: %s fails (%s).", options["backend"], failed[0])
            return plain(*args, **kwargs)

    layer.forward = types.MethodType(forward, layer)


def layers_of(model: Any) -> list[nn.Module]:
    """Return the decoder layers with a trained weight: modules whose class the model's `_no_split_modules` lists."""
    layers = [part for part in model.modules() if type(part).__name__ in (model._no_split_modules or ())]
    return [layer for layer in layers if any(p.requires_grad for p in layer.parameters())]


def compile_layers(module: nn.Module, backend: str, mode: str | None, engine: str, mixed: bool) -> bool:
    """Compile the decoder layers with a trained weight, of all causal LMs in `module`; return False with a warning if
    that is impossible. `engine`: name of the engine. `mixed`: whether passes have rows of several adapters."""
    layers = [layer for head in heads_in(module) for layer in layers_of(head)]
    why = ""
    if engine != "ddp":
        why = f"the run's engine is {engine}, which takes layers apart"
    elif mixed:
        why = "rows of several adapters share a pass (mixed_adapters)"
    elif not layers:
        why = "the model does not name the layers that it repeats"
    if why:
        logger.warning("`torch_compile` is not used: %s.", why)
        return False
    failed: list[str] = []
    for layer in layers:
        _compile(layer, failed, backend=backend, mode=mode)
    return True
