"""Training from a checkpoint: resumes, and the guard's rollbacks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accelerate.utils.memory import clear_device_cache
from transformers import TrainerState
from transformers.trainer_utils import TrainOutput

from .._trl import swapped
from ..data.anchors import planned_rounds
from ..data.run_files import ROLLBACKS, append_lines, set_run_aside
from ..errors import CheckpointError, CollapseError, RunFolderError
from .callbacks.progress import alert, close_bars
from .callbacks.round_end import Rollback, Terminated
from .callbacks.run_folder import describe_run
from .checkpoints import bring, how_to_go_on, manifest_of, rollbacks_of, step_in
from .run_lock import run_lock

logger = logging.getLogger(__name__)

_DONE_BY_US = {"max_grad_norm": 0.0, "save_total_limit": None, "load_best_model_at_end": False}
"""Settings that are hidden from the stock loop: max_grad_norm, because it would clip all roles together;
save_total_limit, because at 1 it deletes at the end all but the best checkpoint; load_best_model_at_end, because it
would read a single adapter."""


class Training:
    """Driver of the stock Trainer's loop, which is restarted from a checkpoint when the guard trips."""

    def __init__(self, trl: Any) -> None:
        self.trl, self.args, self.store = trl, trl.args, trl.store
        self.counts, self.processes = trl.counts, trl.processes

    def train(
        self, stock_train: Callable[..., Any], resume: str | bool | None, /, *arguments: Any, **keywords: Any
    ) -> Any:
        """Train; when the guard trips, resume from the last healthy checkpoint, at most guard_max_rollbacks times. The
        number of rollbacks is part of every sampling seed, so that a repeated round draws other samples."""
        trl, store, args, together = self.trl, self.store, self.args, self.processes.together
        output = store.output
        with run_lock(output), trl.termination.listening():
            start = folder = store.resolve(resume)
            store.changed = {} if folder is None else store.load(folder)
            step = 0 if folder is None else step_in(folder)
            if folder is None:
                trl.evaluator.probe_format()
                trl.before_after.start()
            rounds = planned_rounds(args, trl.train_dataset)
            if folder is not None and rounds <= step:
                return self._already_done(folder, step, rounds)
            if folder is None or folder.parent.resolve() != output.resolve():
                aside = together(lambda: set_run_aside(output))
                if folder is not None and aside is not None and not folder.exists():  # it is in abandoned-<n>
                    start = folder = aside / folder.resolve().relative_to(output.resolve())
            held_out = [trl.domain.problem(row, i) for i, row in enumerate(trl.eval_dataset or ())]
            run_arguments = (args, trl.domain, trl.guard.metrics, folder, step, store.changed, held_out)
            together(lambda: describe_run(*run_arguments))
            with self._telling_how_to_go_on():
                while True:
                    if folder is not None:
                        self.go_back(folder)
                    trl.buffer.clear()  # values that neither the Trainer nor a checkpoint restores
                    try:
                        with swapped(args, _DONE_BY_US):
                            done = stock_train(None if folder is None else str(folder), *arguments, **keywords)
                        self._take_best()
                        return done
                    except Rollback as rollback:
                        folder = self._after_trip(rollback, start)
                        store.load(folder)

    def go_back(self, folder: Path) -> None:
        """Restore the output folder to the step of `folder`, and the counts of rollbacks and generated samples."""
        for record in self.processes.together(lambda: bring(self.store.output, step_in(folder))):
            self.counts.attempt = max(self.counts.attempt, record["attempt"])
            self.counts.keep_spent(record["spent"])

    def _after_trip(self, rollback: Rollback, start: Path | None) -> Path:
        """Record a rollback; return the checkpoint to resume. Raises CollapseError without a checkpoint or a try."""
        args, processes, counts = self.args, self.processes, self.counts
        close_bars(self.trl.callback_handler.callbacks)
        seen = f"The curriculum collapsed at round {counts.rounds}: {rollback.trip}"

        def last_healthy() -> tuple[Path | None, int]:
            usable = start if start is not None and manifest_of(start).get("healthy") else None
            return self.store.newest(healthy_only=True) or usable, len(rollbacks_of(self.store.output))

        healthy, done = processes.together(last_healthy)
        if healthy is None or done >= args.guard_max_rollbacks:
            alert(args, processes.main, "The run has collapsed", f"{seen}.", "error")
        advice = rollback.trip.advice
        if healthy is None:
            cure = "set save_strategy and save_steps"
            raise CollapseError(f"{seen}. There is no healthy checkpoint to go back to; {cure}.")
        if done >= args.guard_max_rollbacks:
            kept = f"{done} rollbacks did not help; the last healthy checkpoint is {healthy}"
            raise CollapseError(f"{seen}. {kept}. {advice}, or raise guard_max_rollbacks.")
        logger.warning(f"{seen}. Rolling back to {healthy} (rollback {done + 1} of {args.guard_max_rollbacks}).")
        name = f"checkpoint-{step_in(healthy)}"
        alert(args, processes.main, f"Rolled back to {name}", f"{seen}. {advice}." if advice else f"{seen}.")
        record = {
            "step": rollback.step,
            "trip": str(rollback.trip),
            "to": name,
            "attempt": counts.attempt + 1,  # not the rollback's number: an external checkpoint has its own
            "spent": counts.spent(),  # a resume after a kill must count it too
        }
        processes.together(lambda: append_lines(self.store.output / ROLLBACKS, [record]))
        # Release the wrapped model, optimizer and schedule, which the resume builds and loads.
        trl = self.trl
        if self.store.engine.release():
            trl.model_wrapped = trl.model
            trl.deepspeed = trl.callback_handler.optimizer = None
            clear_device_cache(garbage_collection=True)
        if trl.optimizer_is_ours:
            trl.optimizer = trl.lr_scheduler = None
        return healthy

    @contextmanager
    def _telling_how_to_go_on(self) -> Iterator[None]:
        """Log the newest checkpoint and the way to resume it if the block raises an error that does not name it."""
        try:
            yield
        except (CollapseError, RunFolderError):  # their messages name it
            raise
        except BaseException as error:
            if self.store.processes.main:
                why = "SIGTERM" if isinstance(error, Terminated) else type(error).__name__
                cure = how_to_go_on(self.store.output)
                logger.warning("Stopped after round %d (%s): %s", self.counts.rounds, why, cure)
            raise

    def _already_done(self, folder: Path, step: int, rounds: int) -> TrainOutput:
        """Load weights and state of a finished run. The stock Trainer, which checks for the end only after a step,
        would play one more round. Raises CheckpointError under engines other than ddp."""
        message = f"{folder} is at round {step} and the run ends at round {rounds}"
        if self.store.engine.name != "ddp":
            cure = "raise max_steps (or num_train_epochs), or use the exported policies"
            raise CheckpointError(f"{message}: nothing is left to train; {cure}.")
        logger.warning("%s: nothing is left to train.", message)
        self.trl._load_from_checkpoint(str(folder))  # as the Trainer itself does in one process or under DDP
        self.trl.state = TrainerState.load_from_json(str(folder / "trainer_state.json"))
        return TrainOutput(step, 0.0, {})

    def _take_best(self) -> None:
        best = self.trl.state.best_model_checkpoint
        if self.args.load_best_model_at_end and best is not None:
            by, reached = self.args.metric_for_best_model, self.trl.state.best_metric
            logger.warning("The policies are those of %s, the best by %s (%.4g).", best, by, reached)
            self.trl._load_from_checkpoint(best)
