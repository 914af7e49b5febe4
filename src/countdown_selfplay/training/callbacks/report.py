"""The report of a run that is still training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainerCallback


class ReportEvery(TrainerCallback):
    """Rewrites report.html at the first log after every `rounds` rounds. It samples nothing: the trajectory stays."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.written = 0  # the round of the last report

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        now = state.global_step // args.steps_per_round
        if not state.is_world_process_zero or not logs or "loss" not in logs:
            return
        if now // self.rounds > self.written // self.rounds:
            from ...evaluation.report import write_report  # matplotlib

            self.written = now
            write_report([args.output_dir], Path(args.output_dir) / "report.html")
