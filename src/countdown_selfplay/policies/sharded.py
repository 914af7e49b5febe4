"""Reading weights that ZeRO-3 has cut up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def gathered(module: nn.Module) -> Iterator[None]:
    """Inside the block the parameters of `module` are whole on every process, to be read only. Without DeepSpeed's
    ZeRO-3 they are anyway. All processes must enter together."""
    if any(hasattr(p, "ds_id") for p in module.parameters()):
        import deepspeed

        with deepspeed.zero.GatheredParameters(list(module.parameters())):
            yield
    else:
        yield
