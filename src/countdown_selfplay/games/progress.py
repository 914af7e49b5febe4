"""How far provers move along each problem of a round."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..contract.round import Rollout, Round


def progress_of(round: Round, answers: Sequence[Rollout], kept: int) -> np.ndarray:
    """(kept) mean over right answers, then over provers, of `Round.progress`, in nats; 0 where no prover has a right
    answer or has taken a step. answers: one per prover, of this process's share of the problems."""
    known_MP = []
    for found in answers:
        moved_B = round.progress(found)
        own = [math.nan] * len(found.rows) if moved_B is None else moved_B.view(-1, found.n).nanmean(1).tolist()
        known_MP.append(round.gather(own)[:kept])
    known = np.asarray(known_MP, dtype=float)
    return np.asarray(np.nansum(known, 0) / np.maximum(np.isfinite(known).sum(0), 1))
