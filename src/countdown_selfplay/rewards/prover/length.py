"""The length penalty of Allen and Ståblein, section 3.2: -alpha * length / max_length, added to the verifier's
score."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import ConfigError


def make_length_penalty(alpha: float, max_length: int, floor: float | None = None) -> Callable[..., list[float]]:
    """A TRL reward callable named "length_penalty" that charges each completion for its share of `max_length` tokens.

    alpha: what a completion of full length costs (Allen and Ståblein: 0.1). Lengths are in tokens; an empty completion
    costs 0. floor: no completion is charged below this sum with its verdict's score, max(floor, score - alpha * length
    / max_length): 0 in the code of Allen and Ståblein (the text has none: a malformed answer of full length has -0.1).
    It needs the column `verdict`, which the joint trainer hands over.
    Raises ConfigError for a negative or infinite alpha or a length below 1.
    """
    if not math.isfinite(alpha) or alpha < 0:
        raise ConfigError(
            f"`alpha` ({alpha}) of the length penalty must be finite and not negative; Allen and Ståblein use 0.1."
        )
    if floor is not None and not math.isfinite(floor):
        raise ConfigError(f"`floor` ({floor}) of the length penalty must be finite; Allen and Ståblein use 0.")
    if max_length < 1:
        raise ConfigError(f"`max_length` ({max_length}) of the length penalty must be at least 1 token.")

    def length_penalty(
        completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], **kwargs: Any
    ) -> list[float]:
        """One penalty per completion, from -alpha to 0 for completions of up to `max_length` tokens."""
        charges = [-alpha * len(ids) / max_length for ids in completion_ids]
        if floor is None:
            return charges
        return [min(max(c, floor - v.score), 0.0) for c, v in zip(charges, kwargs["verdict"], strict=True)]

    return length_penalty
