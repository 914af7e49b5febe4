"""Private random numbers: a sample's seed depends on its purpose, so that other draws cannot change the trajectory."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def seed_from(*key: object) -> int:
    """Return a 63-bit seed that depends only on the parts of `key` (blake2b, stable over processes and runs)."""
    digest = hashlib.blake2b("|".join(map(repr, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


@contextmanager
def private_generator(device: torch.device, *key: object) -> Iterator[None]:
    """Seed torch's generators, of the CPU and of `device`, from `key` inside the block, and restore their state. Other
    devices' generators are not changed (torch.manual_seed would seed them all)."""
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
    """Restore the state of Python's global random generator after the block."""
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)
