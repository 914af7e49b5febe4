"""Training from a checkpoint: a resume, the guard's rollbacks, which are resumes, and the last words of a run.

Going back to a checkpoint first sets aside what lies beyond it: no later resume, rollback or rotation can meet the
checkpoints of a trajectory that was given up. Every step is repeated whole if the process died in the middle of it.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accelerate.utils.memory import clear_device_cache
from transformers import TrainerState
from transformers.trainer_utils import TrainOutput

from ..data.jsonl import json_file
from ..data.run_files import (
    GOING_BACK,
    ROLLBACKS,
    append_lines,
    discard_logs,
    read_lines,
    set_aside,
    set_run_aside,
    step_of,
    write_atomically,
)
from ..errors import CheckpointError, CollapseError, RunFolderError
from .alerts import alert
from .anchor_order import planned_rounds
from .callbacks.guard import Rollback
from .callbacks.progress import RoundProgress
from .callbacks.run_folder import describe_run
from .callbacks.termination import Terminated
from .checkpoints import (
    changes,
    checkpoints,
    defect,
    how_to_go_on,
    load_state,
    manifest_of,
    newest,
    restore_replaced,
    step_in,
)
from .format_probe import probe_format
from .host import Host
from .loop_state import start_rounds
from .run_lock import run_lock
from .steps import counted_in_steps

logger = logging.getLogger(__name__)

_UNKNOWN_WAY = "it says to which step a way back had begun: remove it, and resume from a checkpoint's folder by name"
_RECORD: dict[str, type] = {"to": str, "attempt": int, "spent": dict}
"""Of a line of ROLLBACKS."""


def resolve(trainer: Host, resume: str | bool | None) -> Path | None:
    """The checkpoint that `resume` means: a folder, True for the newest complete one in the output folder, "auto" for
    that or, without one, a fresh start (None). CheckpointError if it is absent, damaged or of another run."""
    if resume == "":  # an unset variable of a shell: a fresh run would move the old one aside
        raise CheckpointError("`resume_from_checkpoint` is empty; pass a checkpoint's folder, true, auto or nothing.")
    if isinstance(resume, (str, os.PathLike)):
        resume = {"true": True, "false": False}.get(str(resume).lower(), str(resume))  # the command line passes words
    if not resume:
        return None
    found = trainer.processes.together(lambda: _find(trainer, resume))
    if found is None:
        return None
    changes(trainer, Path(found))
    return Path(found)


def _find(trainer: Host, resume: str | bool) -> str | None:
    output, processes, engine = Path(trainer.args.output_dir), trainer.processes.world, trainer.engine.name
    _finish_going_back(output)
    if resume in (True, "auto"):
        folder = newest(output, processes, engine=engine)
        if folder is None and resume is True:
            raise CheckpointError(
                f"There is no complete checkpoint in {output} to resume from; start without resume_from_checkpoint, "
                "or with auto, which starts a run that has none."
            )
    else:
        folder = Path(str(resume))
        problem = defect(folder, processes, engine, contents=folder != trainer.verified_checkpoint)
        if problem is not None:
            raise CheckpointError(
                f"Cannot resume from {folder}: {problem}; pass true to take the newest complete checkpoint."
            )
    trainer.verified_checkpoint = folder
    return None if folder is None else str(folder)


# -- going back -------------------------------------------------------------------------------------------------------


def _finish_going_back(output: Path) -> None:
    """What a process that died left undone: a checkpoint between two names, a way back that was begun, and checkpoints
    that a rollback gave up, which were written under a lower attempt than the one that it led to."""
    restore_replaced(output)
    if (output / GOING_BACK).exists():
        _bring(output, json_file(output / GOING_BACK, _UNKNOWN_WAY, to=int)["to"])
    given_up = [
        folder
        for record in read_lines(output / ROLLBACKS, **_RECORD)
        for folder in checkpoints(output)
        if step_in(folder) > step_of(record["to"]) and manifest_of(folder).get("attempt", math.inf) < record["attempt"]
    ]
    _abandon(output, given_up)


def _abandon(output: Path, folders: list[Path]) -> None:
    aside = set_aside(output, folders, "abandoned")
    if aside is not None:
        names = ", ".join(sorted({folder.name for folder in folders}, key=step_of))
        logger.warning("%s of the trajectory that is given up: moved to %s.", names, aside)


def _go_back(trainer: Host, folder: Path) -> None:
    """Bring the output folder to the step of `folder`, and the counts of attempts and generations up to date."""
    output = Path(trainer.args.output_dir)
    step = int(manifest_of(folder)["step"])  # the folder may have been given another name

    for record in trainer.processes.together(lambda: _bring(output, step)):
        trainer.frame.attempt = max(trainer.frame.attempt, record["attempt"])
        trainer.frame.keep_spent(record["spent"])


def _bring(output: Path, step: int) -> list[dict[str, Any]]:
    """Set aside what lies beyond `step`; the rollbacks that are left. A note says so first: who dies between two moves
    would leave the rest to be resumed from."""
    later = [folder for folder in checkpoints(output) if step_in(folder) > step]
    if later:
        write_atomically(output / GOING_BACK, json.dumps({"to": step}))
        _abandon(output, later)
    discard_logs(output, step)
    (output / GOING_BACK).unlink(missing_ok=True)
    return read_lines(output / ROLLBACKS, **_RECORD)


def _after_trip(trainer: Host, rollback: Rollback, start: Path | None) -> Path:
    """Write the rollback down; the checkpoint to go back to: the newest healthy one of this run, or the one elsewhere
    that it started from."""
    args, processes, engine = trainer.args, trainer.processes.world, trainer.engine.name
    output = Path(args.output_dir)
    seen = f"The curriculum collapsed at round {trainer.frame.rounds}: {rollback.trip}"
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, RoundProgress):
            callback.close()

    def last_healthy() -> tuple[str | None, int]:
        found = newest(output, processes, healthy_only=True, engine=engine)
        if found is None and start is not None and manifest_of(start).get("healthy"):
            found = start
        return None if found is None else str(found), len(read_lines(output / ROLLBACKS))

    healthy, done = trainer.processes.together(last_healthy)
    if healthy is None or done >= args.guard_max_rollbacks:
        alert(trainer, "The run has collapsed", f"{seen}.", "error")
    if healthy is None:
        raise CollapseError(f"{seen}. There is no healthy checkpoint to go back to; set save_strategy and save_steps.")
    if done >= args.guard_max_rollbacks:
        raise CollapseError(
            f"{seen}. {done} rollbacks did not help; the last healthy checkpoint is {healthy}. "
            f"{rollback.trip.advice}, or raise guard_max_rollbacks."
        )
    logger.warning("%s. Rolling back to %s (rollback %d of %d).", seen, healthy, done + 1, args.guard_max_rollbacks)
    back = f"{seen}. {rollback.trip.advice}." if rollback.trip.advice else f"{seen}."
    alert(trainer, f"Rolled back to checkpoint-{manifest_of(Path(healthy))['step']}", back)
    record = {
        "step": rollback.step,
        "trip": str(rollback.trip),
        "to": f"checkpoint-{manifest_of(Path(healthy))['step']}",
        "attempt": trainer.frame.attempt + 1,  # not the rollback's number: a start elsewhere brings its own
        "spent": trainer.frame.spent(),  # a resume after a kill must count it too
    }
    trainer.processes.together(lambda: append_lines(output / ROLLBACKS, [record]))
    if trainer.engine.release(trainer.model_wrapped):
        trainer.model_wrapped = trainer.model
        trainer.deepspeed = trainer.callback_handler.optimizer = None
        clear_device_cache(garbage_collection=True)
    trainer.forget_optimizer()
    return Path(healthy)


# -- training ---------------------------------------------------------------------------------------------------------


def train_with_rollbacks(
    trainer: Host,
    stock_train: Callable[..., Any],
    resume: str | bool | None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Train; on a trip of the guard go back to the last healthy checkpoint and go on, at most guard_max_rollbacks
    times.

    After a rollback the attempt counter is part of every sampling seed, or the same samples would lead to the same
    collapse.
    """
    output = Path(trainer.args.output_dir)
    with run_lock(output), trainer.termination.listening():
        start = folder = resolve(trainer, resume)
        trainer.changed_settings = {} if folder is None else load_state(trainer, folder)
        step = 0 if folder is None else int(manifest_of(folder)["step"])
        if folder is None:
            probe_format(trainer)
        rounds = planned_rounds(trainer)
        if folder is not None and rounds * trainer.args.steps_per_round <= step:
            return _already_done(trainer, folder, step)
        if folder is None or folder.parent.resolve() != output.resolve():
            aside = trainer.processes.together(lambda: set_run_aside(output))
            if folder is not None and aside is not None and not folder.exists():  # it was in abandoned-<n>
                start = folder = aside / folder.resolve().relative_to(output.resolve())
        trainer.processes.together(lambda: describe_run(trainer, folder, step))
        with _telling_how_to_go_on(trainer, output):
            while True:
                if folder is not None:
                    _go_back(trainer, folder)
                start_rounds(trainer)
                try:
                    with _done_by_us(trainer.args), counted_in_steps(trainer.args, rounds):
                        done = stock_train(None if folder is None else str(folder), *args, **kwargs)
                    _take_best(trainer)
                    return done
                except Rollback as rollback:
                    folder = _after_trip(trainer, rollback, start)
                    load_state(trainer, folder)


@contextmanager
def _telling_how_to_go_on(trainer: Host, output: Path) -> Iterator[None]:
    """However training ends before its end, the last words name the checkpoint and what resumes it."""
    try:
        yield
    except (CollapseError, RunFolderError):  # they say it themselves
        raise
    except BaseException as error:
        if trainer.processes.main:
            why = "SIGTERM" if isinstance(error, Terminated) else type(error).__name__
            logger.warning("Stopped after round %d (%s): %s", trainer.frame.rounds, why, how_to_go_on(output))
        raise


def _already_done(trainer: Host, folder: Path, step: int) -> TrainOutput:
    """The weights and state of a finished run. The stock Trainer asks whether it is done after a step only, so that it
    would play one round more at each resume."""
    done, rounds = step // trainer.args.steps_per_round, planned_rounds(trainer)
    said = f"{folder} is at round {done} and the run ends at round {rounds}"
    if trainer.engine.name != "ddp":
        raise CheckpointError(
            f"{said}: nothing is left to train; raise max_steps (or num_train_epochs), or use the exported policies."
        )
    logger.warning("%s: nothing is left to train.", said)
    trainer._load_from_checkpoint(str(folder))  # as the Trainer itself does in one process or under DDP
    trainer.state = TrainerState.load_from_json(str(folder / "trainer_state.json"))
    return TrainOutput(step, 0.0, {})


def _take_best(trainer: Host) -> None:
    """Under load_best_model_at_end the weights of the best checkpoint by metric_for_best_model, for all policies."""
    best = trainer.state.best_model_checkpoint
    if trainer.args.load_best_model_at_end and best is not None:
        logger.warning(
            "The policies are those of %s, the best by %s (%.4g).",
            *(best, trainer.args.metric_for_best_model, trainer.state.best_metric),
        )
        trainer._load_from_checkpoint(best)


@contextmanager
def _done_by_us(args: Any) -> Iterator[None]:
    """Hidden from the stock loop: max_grad_norm, for it would clip all roles together and RoundEnd clips each at its
    own (rule 7 of the design); save_total_limit, for at 1 it deletes at the end what is not the best checkpoint, the
    newest healthy one too; load_best_model_at_end, for it would read a single adapter."""
    kept = {name: getattr(args, name) for name in ("max_grad_norm", "save_total_limit", "load_best_model_at_end")}
    args.max_grad_norm, args.save_total_limit, args.load_best_model_at_end = 0.0, None, False
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(args, name, value)
