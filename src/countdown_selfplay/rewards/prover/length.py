"""Penalties for length: -alpha * length / max_length, added to the verifier's score (Allen and Ståblein, section 3.2);
and a penalty for completions close to the token limit (SGS)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import ConfigError


def make_length_penalty(alpha: float, max_length: int, floor: float | None = None) -> Callable[..., list[float]]:
    """Make a TRL reward callable, "length_penalty", that penalises each completion by its share of `max_length`
    tokens. With a floor it needs the column `verdict`, which the joint trainer adds. Raises ConfigError for a negative
    or infinite alpha, an infinite floor, or a length below 1.

    alpha: penalty of a completion of full length (Allen and Ståblein: 0.1); an empty one has 0. floor: lower bound of
    score plus penalty, max(floor, score - alpha * length / max_length): 0 in the code of Allen and Ståblein, none in
    their text (a malformed answer of full length has -0.1)."""
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
        """Return one penalty per completion, in [-alpha, 0] for completions of at most `max_length` tokens."""
        charges = [-alpha * len(ids) / max_length for ids in completion_ids]
        if floor is None:
            return charges
        return [min(max(c, floor - v.score), 0.0) for c, v in zip(charges, kwargs["verdict"], strict=True)]

    return length_penalty


def make_soft_overlong(share: float, max_length: int) -> Callable[..., list[float]]:
    """Make a TRL reward callable, "soft_overlong", that penalises completions close to the limit: 0 up to max_length -
    cache tokens, then linear to -1 at max_length, -1 beyond; cache = share * max_length, rounded to whole tokens, at
    least 1. SGS uses the last 20% of the context: share 0.2. Values equal
    `trl.rewards.get_soft_overlong_punishment(max_length, cache)`. Raises ConfigError for a share outside (0, 1] or a
    length below 1."""
    overlong_charges([], share, max_length)

    def soft_overlong(
        completions: Sequence[Any], completion_ids: Sequence[Sequence[int]], **kwargs: Any
    ) -> list[float]:
        """Return one penalty per completion, from -1 to 0."""
        return overlong_charges([len(ids) for ids in completion_ids], share, max_length)

    return soft_overlong


def overlong_charges(lengths: Sequence[int], share: float, max_length: int) -> list[float]:
    """Return the penalties, from -1 to 0, of completions with these numbers of tokens."""
    if not (math.isfinite(share) and 0.0 < share <= 1.0):
        raise ConfigError(f"`share` ({share}) of soft_overlong must lie in (0, 1]; SGS uses 0.2.")
    if max_length < 1:
        raise ConfigError(f"`max_length` ({max_length}) of soft_overlong must be at least 1 token.")
    cache = max(1, round(share * max_length))
    return [-min(max(length - (max_length - cache), 0) / cache, 1.0) for length in lengths]
