"""What the collapse guard does: keep a healthy checkpoint to go back to, and ask for the rollback, of the run or of a
conjecturer alone."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from ...curriculum import Trip
from ..conjecturer_back import take_back
from ..host import Host
from ..steps import ends_round

logger = logging.getLogger(__name__)


class Rollback(Exception):
    """Leaves the training loop at the end of a round; caught by `train`, which resumes from the last healthy
    checkpoint."""

    def __init__(self, trip: Trip, step: int) -> None:
        super().__init__(trip, step)
        self.trip, self.step = trip, step


class GuardCallback(TrainerCallback):
    """Feeds the guard with every round. All processes hold the same metrics, so they trip together."""

    def __init__(self, trainer: Host) -> None:
        self.trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        # A collapse before the first regular checkpoint must have something to go back to.
        first = Path(args.output_dir) / "checkpoint-0"
        if args.guard and state.global_step == 0 and args.save_strategy != "no" and not first.exists():
            self.trainer._save_checkpoint(self.trainer.model, None)
        if state.global_step == 0:
            self.trainer.engine.before_first_round(self.trainer.optimizer)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not args.guard or not ends_round(args, state.global_step):
            return
        metrics, alone = self.trainer.round_metrics[-1], self.trainer.conjecturer_guard
        trip = self.trainer.guard.observe(metrics)
        fallen = {} if alone is None else alone.fallen(metrics)
        if trip is not None:
            raise Rollback(trip, state.global_step)
        if alone is not None:
            metrics |= {f"{player}/rolled_back": int(player in fallen) for player in alone.players}
        if fallen:
            take_back(self.trainer, fallen)
