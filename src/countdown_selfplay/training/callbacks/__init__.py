"""Trainer callbacks: clip per role and the round's end, collapse guard, run folder, SIGTERM, progress bar."""

from .guard import GuardCallback, Rollback
from .progress import RoundLines, RoundProgress, show_rounds
from .round_end import FirstRounds, RoundEnd, RoundExports
from .run_folder import ReportEvery, RunFolder
from .termination import Terminated, Termination

__all__ = [
    "FirstRounds",
    "GuardCallback",
    "ReportEvery",
    "Rollback",
    "RoundEnd",
    "RoundExports",
    "RoundLines",
    "RoundProgress",
    "RunFolder",
    "Terminated",
    "Termination",
    "show_rounds",
]
