"""The length penalty of seed 001, section 3.2: -alpha * length / max_length, added to the verifier's score."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import ConfigError


def make_length_penalty(alpha: float, max_length: int) -> Callable[..., list[float]]:
    """A TRL reward callable named "length_penalty" that charges each completion for its share of `max_length` tokens.

    alpha: what a completion of full length costs (seed 001: 0.1). Lengths are in tokens; an empty completion costs 0.
    Raises ConfigError for a negative or infinite alpha or a length below 1.
    """
    if not math.isfinite(alpha) or alpha < 0:
        raise ConfigError(
            f"`alpha` ({alpha}) of the length penalty must be finite and not negative; seed 001 uses 0.1."
        )
    if max_length < 1:
        raise ConfigError(f"`max_length` ({max_length}) of the length penalty must be at least 1 token.")

    def length_penalty(
        completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], **kwargs: Any
    ) -> list[float]:
        """One penalty per completion, from -alpha to 0 for completions of up to `max_length` tokens."""
        return [-alpha * len(ids) / max_length for ids in completion_ids]

    return length_penalty
