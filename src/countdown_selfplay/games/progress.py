"""How far provers move along each problem of a round, and how much an update on it raises them on others."""

from __future__ import annotations

import math
import random
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


def rise_of(round: Round, answers: Sequence[Rollout], size: int, kept: int) -> np.ndarray | None:
    """(kept) mean over provers of `Round.rise`, in nats; None where no prover has one yet."""
    known_MP = []
    for found in answers:
        raised_P = round.rise(found, size)
        known_MP.append(round.gather([math.nan] * len(found.rows) if raised_P is None else raised_P.tolist())[:kept])
    known = np.asarray(known_MP, dtype=float)
    counts = np.isfinite(known).sum(0)
    return np.nansum(known, 0) / np.maximum(counts, 1) if counts.any() else None


def held_back(share: float, seed: int, solve_rate_P: np.ndarray) -> list[bool]:
    """(P) bools: a share, rounded up, of the problems with 0 < p <= 1/2, drawn by `seed`."""
    frontier = [i for i, rate in enumerate(solve_rate_P) if 0 < rate <= 0.5]
    count = math.ceil(share * len(frontier) - 1e-9)  # .07 of 100 is a hair above 7 in floats
    drawn = set(random.Random(seed).sample(frontier, count))
    return [i in drawn for i in range(len(solve_rate_P))]
