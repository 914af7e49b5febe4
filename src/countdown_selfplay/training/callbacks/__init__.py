"""Trainer callbacks: clip per role and the round's end, collapse guard, run folder, SIGTERM, progress bar."""

from __future__ import annotations

from transformers import TrainerCallback

from ..host import Host
from .first_rounds import FirstRounds
from .guard import GuardCallback, Rollback
from .progress import RoundLines, RoundProgress, show_rounds
from .report import ReportEvery
from .round_end import RoundEnd
from .round_exports import RoundExports
from .run_folder import RunFolder
from .termination import Terminated, Termination


def default_callbacks(trainer: Host) -> list[TrainerCallback]:
    """In this order: the round is closed before it is judged, by the guard last, and exported after that."""
    return [
        *(RoundEnd(trainer), FirstRounds(trainer), GuardCallback(trainer), RoundExports(trainer)),
        *(RunFolder(trainer), trainer.termination),
    ]


__all__ = [
    "FirstRounds",
    "GuardCallback",
    "ReportEvery",
    "Rollback",
    "RoundEnd",
    "RoundLines",
    "RoundExports",
    "RoundProgress",
    "RunFolder",
    "Terminated",
    "Termination",
    "default_callbacks",
    "show_rounds",
]
