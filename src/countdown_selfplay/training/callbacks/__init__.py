"""Trainer callbacks: clip per role and the round's end, collapse guard, run folder, SIGTERM, progress bar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from transformers import TrainerCallback

from .guard import GuardCallback, Rollback
from .progress import RoundProgress
from .round_end import RoundEnd
from .run_folder import RunFolder
from .termination import Terminated, Termination

if TYPE_CHECKING:
    from ..trainer import JointConjecturerProverTrainer


def default_callbacks(trainer: JointConjecturerProverTrainer) -> list[TrainerCallback]:
    """In this order: the round is closed before the guard looks at it."""
    return [RoundEnd(trainer), GuardCallback(trainer), RunFolder(trainer), trainer.termination]


__all__ = [
    "GuardCallback",
    "Rollback",
    "RoundEnd",
    "RoundProgress",
    "RunFolder",
    "Terminated",
    "Termination",
    "default_callbacks",
]
