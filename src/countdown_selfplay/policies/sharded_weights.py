"""Weights that ZeRO-3 or FSDP2 has cut up over the processes: seeing it, and reading them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.distributed.fsdp import FSDPModule


def cut_up(module: nn.Module) -> bool:
    """Does no process hold the whole of `module`? Then each forward pass is a collective of all processes."""
    return any(isinstance(part, FSDPModule) for part in module.modules()) or _by_deepspeed(module)


def _by_deepspeed(module: nn.Module) -> bool:
    return any(hasattr(p, "ds_id") for p in module.parameters())


@contextmanager
def gathered(module: nn.Module) -> Iterator[None]:
    """Inside the block the parameters of `module` are whole on every process, to be read only. Without DeepSpeed's
    ZeRO-3 they are anyway. All processes must enter together."""
    if _by_deepspeed(module):
        import deepspeed

        with deepspeed.zero.GatheredParameters(list(module.parameters())):
            yield
    else:
        yield
