"""Private randomness: sampling is seeded by what it is for, so nothing else that draws numbers can change the
trajectory."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def seed_from(*key: object) -> int:
    """A 63-bit seed that depends on every part of `key`, and on nothing else (blake2b, stable over processes and
    runs)."""
    digest = hashlib.blake2b("|".join(map(repr, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


@contextmanager
def private_generator(device: torch.device, *key: object) -> Iterator[None]:
    """Inside the block torch's generators, of the CPU and of `device`, start from `key`; afterwards their former
    state is back. No other device's generator is touched (torch.manual_seed would seed them all)."""
    import torch

    number = seed_from(*key)
    cpu = torch.get_rng_state()
    module = None if device.type == "cpu" else torch.get_device_module(device)
    index = () if device.type in ("cpu", "mps") else (device,)
    state = None if module is None else module.get_rng_state(*index)
    torch.default_generator.manual_seed(number)
    if module is not None:
        generator = torch.Generator(device=device).manual_seed(number)
        module.set_rng_state(generator.get_state(), *index)
    try:
        yield
    finally:
        torch.set_rng_state(cpu)
        if module is not None:
            module.set_rng_state(state, *index)


@contextmanager
def python_random_kept() -> Iterator[None]:
    """After the block Python's own generator is as it was before."""
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)
