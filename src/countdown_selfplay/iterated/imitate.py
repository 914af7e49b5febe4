"""Imitation of another model's play, for models that do not know the game (Wang et al. 2025, section 4.1)."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

from ..errors import DataError
from ..random_state import seed_from
from . import select
from .settings import RoleTraining


def to_imitate(folder: Path, roles: Iterable[str], most: int, seed: int) -> list[select.Row]:
    """What a run's first iteration trained its roles on, at most `most` rows drawn by lot from `seed`."""
    first, cure = folder / "iteration-1", "name the folder of a run that has trained all of these roles once"
    rows = [row for role in roles for row in select.read(first / f"{role}.parquet", cure=cure)]
    if not rows:
        raise DataError(f"The first iteration of '{folder}' chose no sample, so there is nothing to imitate.")
    if "rejected" in rows[0]:
        raise DataError(f"'{folder}' holds pairs, which cannot be imitated; name a run with algorithm=rest.")
    if len(rows) <= most:
        return rows
    kept = random.Random(seed_from(seed, "imitate")).sample(range(len(rows)), most)
    return [rows[i] for i in sorted(kept)]


def imitation(training: RoleTraining) -> RoleTraining:
    """How it is trained on; the paper does not say: as the prover's first iteration, one epoch."""
    return RoleTraining(learning_rate=training.learning_rate[:1], batch_size=training.batch_size[:1])
