"""The report of a run that is still training."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from ..evaluation import write_report_of
from ..host import Host


class ReportEvery(TrainerCallback):
    """Rewrites report.html at the first log after every `rounds` rounds. It samples nothing: the trajectory stays."""

    def __init__(self, trainer: Host, rounds: int) -> None:
        self.trainer, self.rounds = trainer, rounds
        self.written = 0  # the round of the last report

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        now = state.global_step // args.steps_per_round
        if (
            state.is_world_process_zero
            and logs
            and "loss" in logs
            and now // self.rounds > self.written // self.rounds
        ):
            self.written = now
            write_report_of(self.trainer)
