"""SIGTERM, which a scheduler sends before it kills, ends a run at the end of its round, with a checkpoint."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from transformers import TrainerCallback

from ...distributed.processes import Processes
from ..book import ends_round

logger = logging.getLogger(__name__)


class Terminated(SystemExit):
    """Leaves the program after SIGTERM with exit code 143, as the signal itself would."""

    def __init__(self, step: int) -> None:
        super().__init__(128 + signal.SIGTERM)
        self.step = step


class Termination(TrainerCallback):
    """Asks all processes at the end of each round whether one of them was told to end. A second SIGTERM changes
    nothing: the round is still played to its end. It leaves before the next round and not in `on_save`, where the
    callbacks of a user (that copy a checkpoint away, for one) come later."""

    def __init__(self, processes: Processes, save: Callable[[], None]) -> None:
        """`save`: writes a checkpoint."""
        self.processes, self.save = processes, save
        self.asked = self.ending = self.saved = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Inside the block SIGTERM is noted. A user's handler, and any outside the main thread, stays."""
        self.asked = self.ending = self.saved = False
        ours = threading.current_thread() is threading.main_thread()
        if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            yield
            return
        signal.signal(signal.SIGTERM, self._note)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _note(self, *_: Any) -> None:
        self.asked = True

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not ends_round(args, state.global_step):
            return
        self.ending = any(self.processes.gather([self.asked]))
        if self.ending and args.save_strategy == "no":
            raise Terminated(state.global_step)
        control.should_save |= self.ending

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.saved = self.ending

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not self.ending:
            return
        if not self.saved:  # save_strategy="best" took the save back, for the round was not the best one
            self.save()
        raise Terminated(state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.ending and self.saved:  # told to end in the last round
            raise Terminated(state.global_step)
