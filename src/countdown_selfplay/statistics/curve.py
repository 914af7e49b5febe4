"""The points of one run on the way to an asymptote."""

from __future__ import annotations

from dataclasses import dataclass, replace

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

    def recentred(self, drop_below: float) -> Curve:
        """The points from `drop_below` on, with compute counted from the first of them (seed 003, appendix A: the
        gains after the low-compute phase). Itself without a point there."""
        cut = int((self.compute < drop_below).sum())
        if cut == len(self.compute):
            return self
        first = None if self.first is None else np.maximum(self.first - cut, 0)
        return replace(self, compute=self.compute[cut:] - self.compute[cut], rate=self.rate[cut:], first=first)
