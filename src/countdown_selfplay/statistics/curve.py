"""The points of one run on the way to an asymptote."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Curve:
    """Compute and rate of one run, by rising compute.

    cumulative: whether the rate is a share of problems that only grows, so that its points are not independent.
    problems: their keys, and first: the number of the point from which on each is solved (len(compute): never); None
    where a run does not say.
    """

    compute: np.ndarray
    rate: np.ndarray
    cumulative: bool = False
    problems: tuple[str, ...] | None = None
    first: np.ndarray | None = None
