"""The prover's length penalty (seed 001, section 3.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import ConfigError


def make_length_penalty(alpha: float, max_length: int) -> Callable[..., list[float]]:
    """A TRL reward callable: -alpha * length / max_length with length in completion tokens; alpha 0.1 in the paper.
    It is added to the verifier's score and has no say in the solve rate."""
    if alpha < 0 or max_length < 1:
        raise ConfigError(f"A length penalty needs alpha >= 0 and max_length >= 1, got {alpha} and {max_length}.")

    def length_penalty(completion_ids: Sequence[Sequence[int]], **kwargs: Any) -> list[float]:
        return [-alpha * len(ids) / max_length for ids in completion_ids]

    return length_penalty
