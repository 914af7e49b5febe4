"""A warning about a run whose first rounds can hardly be read."""

from __future__ import annotations

import logging
from typing import Any

from tqdm.contrib.logging import logging_redirect_tqdm
from transformers import TrainerCallback

from ...curriculum.legibility import Legibility
from ..host import Host
from ..steps import ends_round

logger = logging.getLogger(__name__)


class FirstRounds(TrainerCallback):
    """Warns once, on the main process, when a role's read, parse or format rate is next to nothing."""

    def __init__(self, trainer: Host) -> None:
        self.trainer = trainer
        self.legibility = Legibility(trainer.guard.metrics)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if ends_round(args, state.global_step):
            rounds = state.global_step // args.steps_per_round
            self._warn(self.legibility.observe(rounds, self.trainer.round_metrics[-1]), state)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._warn(self.legibility.judge(), state)  # a run of fewer rounds

    def _warn(self, said: str | None, state: Any) -> None:
        if said is not None and state.is_world_process_zero:
            with logging_redirect_tqdm():  # above the bar
                logger.warning(said)
