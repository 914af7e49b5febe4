"""Private randomness: sampling is seeded by what it is for, so nothing else that draws numbers can change the
trajectory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def seed_from(*key: object) -> int:
    """A 63-bit seed that depends on every part of `key`, and on nothing else (blake2b, stable over processes and
    runs)."""
    digest = hashlib.blake2b("|".join(map(repr, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


@contextmanager
def private_torch_seed(*key: object) -> Iterator[None]:
    """Inside the block torch's generators are seeded from `key`; afterwards their former state is back, bit for
    bit."""
    cpu = torch.get_rng_state()
    cuda = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
    seed = seed_from(*key)
    torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed every device, and one state is put back
    if cuda is not None:
        torch.cuda.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(cpu)
        if cuda is not None:
            torch.cuda.set_rng_state(cuda)
