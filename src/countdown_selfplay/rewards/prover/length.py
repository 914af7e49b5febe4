"""Charges for length: that of Allen and Ståblein, section 3.2, -alpha * length / max_length, added to the verifier's
score; and the one for texts near the limit (SGS)."""

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


def make_soft_overlong(share: float, max_length: int) -> Callable[..., list[float]]:
    """A TRL reward callable named "soft_overlong" that charges only what comes close to the limit.

    0 up to max_length - cache tokens, then linear to -1 at max_length, -1 beyond; cache = share * max_length, rounded
    to whole tokens, at least 1. SGS uses the last 20% of the context: share 0.2. The values are those of
    `trl.rewards.get_soft_overlong_punishment(max_length, cache)`. Raises ConfigError for a share outside (0, 1] or a
    length below 1.
    """
    overlong_charges([], share, max_length)

    def soft_overlong(
        completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], **kwargs: Any
    ) -> list[float]:
        """One charge per completion, from -1 to 0."""
        return overlong_charges([len(ids) for ids in completion_ids], share, max_length)

    return soft_overlong


def overlong_charges(lengths: Sequence[int], share: float, max_length: int) -> list[float]:
    """The charge, from -1 to 0, of completions of so many tokens."""
    if not (math.isfinite(share) and 0.0 < share <= 1.0):
        raise ConfigError(f"`share` ({share}) of soft_overlong must lie in (0, 1]; SGS uses 0.2.")
    if max_length < 1:
        raise ConfigError(f"`max_length` ({max_length}) of soft_overlong must be at least 1 token.")
    cache = max(1, round(share * max_length))
    return [-min(max(length - (max_length - cache), 0) / cache, 1.0) for length in lengths]
