"""Which weights an engine holds, told from the weights themselves: nobody has to remember to say that they changed."""

from __future__ import annotations

from collections.abc import Iterable

import torch

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@torch.no_grad()
def fingerprint(parameters: Iterable[torch.nn.Parameter]) -> tuple[int, ...]:
    """Per tensor, the sum of its bits read as integers, of the part that this process holds.

    Two sums per tensor, over all and over every other element, so that two entries that change places show too. A
    change of one bit anywhere changes it; an optimizer step, a rollback, a resume and an edit by hand all do. It reads
    the weights once, which is far cheaper than to push them.
    """
    sums = []
    for parameter in parameters:
        shard = _local(parameter).detach()
        if shard.numel() == 0:
            continue
        bits = shard.contiguous().reshape(-1).view(_INTEGERS[shard.element_size()])
        sums += [bits.sum(dtype=torch.int64), bits[::2].sum(dtype=torch.int64)]
    return tuple(torch.stack(sums).tolist()) if sums else ()


def _local(parameter: torch.Tensor) -> torch.Tensor:
    """This process's shard: of a DTensor (FSDP2), or of a parameter that ZeRO-3 has taken apart."""
    if hasattr(parameter, "to_local"):
        return parameter.to_local()
    shard = getattr(parameter, "ds_tensor", None)
    return parameter if shard is None else shard
