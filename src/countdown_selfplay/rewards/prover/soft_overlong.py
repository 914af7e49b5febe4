"""The soft overlong punishment of DAPO (Yu et al. 2025, arXiv 2503.14476, equation 13); SGS 2026, section 4.1."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...errors import ConfigError


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
