"""Checkpoints that are complete or absent, resumes that lose nothing, and the guard's rollbacks, which are resumes."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerState
from transformers.trainer_utils import TrainOutput

from . import _trl
from .callbacks.guard import Rollback
from .callbacks.progress import RoundProgress
from .errors import CheckpointError, CollapseError
from .exports import export_policies

if TYPE_CHECKING:
    from .trainer import JointConjecturerProverTrainer

logger = logging.getLogger(__name__)

STATE = "selfplay_state.json"
COMPLETE = "complete.json"
ROLLBACKS = "rollbacks.jsonl"
_STAGING = ".incomplete"


# -- writing
# -------------------------------------------------------------------------------------------------------------


def save(trainer: JointConjecturerProverTrainer, stock_save: Callable[..., None], model: Any, trial: Any) -> None:
    """Write `checkpoint-<step>`: everything into a staging folder, the list of files last, then one rename.

    A run that dies at any point leaves either the whole checkpoint under its name or none. Called by all processes.
    """
    args, main = trainer.args, trainer.accelerator.is_main_process
    output = Path(args.output_dir)
    staging = output / _STAGING
    if main:
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
    trainer.accelerator.wait_for_everyone()
    trainer.engine.before_save(trainer)
    args.output_dir = str(staging)  # where the stock Trainer puts checkpoint-<step>, and rotates (nothing, in here)
    try:
        stock_save(model, trial)
    finally:
        args.output_dir = str(output)
    best = trainer.state.best_model_checkpoint  # named while it lay in staging
    if best is not None and Path(best).parent == staging:
        trainer.state.best_model_checkpoint = str(output / Path(best).name)
    trainer.accelerator.wait_for_everyone()
    name = f"checkpoint-{trainer.state.global_step}"
    if args.policy_sharing != "lora":  # PEFT has written the adapters' folders already
        export_policies(trainer, staging / name)
    if main:
        _finish(trainer, staging / name)
        _replace(staging / name, output / name)
        shutil.rmtree(staging, ignore_errors=True)
        _rotate(output, args.save_total_limit, trainer.state.best_model_checkpoint)
    trainer.accelerator.wait_for_everyone()


def _finish(trainer: JointConjecturerProverTrainer, folder: Path) -> None:
    state = {
        "curriculum": trainer.curriculum.state_dict(),
        "guard": trainer.guard.state_dict(),
        "objectives": {role: _state(objective) for role, objective in trainer.objectives.items()},
        "entropy": {role: loss.entropy.state_dict() for role, loss in trainer.losses.items()},
        "solve_rate": None if trainer.solve_rate is None else trainer.solve_rate.state_dict(),
        "roles": list(trainer.roles),
        "policy_sharing": trainer.args.policy_sharing,
        "processes": trainer.accelerator.num_processes,
    }
    (folder / STATE).write_text(json.dumps(state))
    for role, replay in trainer.replays.items():
        replay.save(folder / _kept_samples(role))
    files = {str(p.relative_to(folder)): p.stat().st_size for p in sorted(folder.rglob("*")) if p.is_file()}
    manifest = {
        "step": trainer.state.global_step,
        "healthy": trainer.guard.healthy,
        "processes": trainer.accelerator.num_processes,
        "engine": trainer.engine.name,
        "optimizer": trainer.engine.optimizer_file,
        "files": files,
    }
    with (folder / COMPLETE).open("w") as file:
        json.dump(manifest, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def _kept_samples(role: str) -> str:
    return f"kept_samples_{role}.safetensors"


def _state(objective: Any) -> dict[str, Any]:
    """Class and state of an objective; a user's need not have one."""
    state = objective.state_dict() if hasattr(objective, "state_dict") else {}
    return {"class": type(objective).__name__, "state": state}


def _replace(source: Path, target: Path) -> None:
    """Rename onto a checkpoint of the same step (written before a rollback) without a moment in which there is
    none."""
    old = target.with_name(f".old-{target.name}")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    source.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _rotate(output: Path, limit: int | None, best: str | None) -> None:
    """Keep the newest `limit` checkpoints, and beyond them the best one and the newest healthy one."""
    if not limit or limit <= 0:
        return
    found = _by_step(output)
    healthy = [folder for folder in found if _manifest(folder).get("healthy")]
    protected = {*found[-limit:], *healthy[-1:], *([Path(best)] if best else [])}
    for folder in found:
        if folder not in protected:
            shutil.rmtree(folder, ignore_errors=True)


# -- finding and checking
# ------------------------------------------------------------------------------------------------


def _by_step(output: Path) -> list[Path]:
    folders = [p for p in output.glob("checkpoint-*") if p.is_dir() and p.name.split("-")[-1].isdigit()]
    return sorted(folders, key=lambda p: int(p.name.split("-")[-1]))


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        return json.loads((folder / COMPLETE).read_text())
    except (OSError, json.JSONDecodeError):
        return {}


def defect(folder: Path, processes: int, engine: str | None = None) -> str | None:
    """What keeps `folder` from being resumed, in a few words, or None. The stock Trainer would resume without an
    optimizer, RNG or curriculum and say nothing."""
    if not folder.is_dir():
        return "there is no such folder"
    manifest = _manifest(folder)
    if not manifest:
        return f"it has no readable {COMPLETE}: the run stopped while it was written, or it is no self-play checkpoint"
    for name, size in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes instead of {size}"
    for name in (manifest.get("optimizer", "optimizer.pt"), "scheduler.pt", "trainer_state.json", STATE):
        if name not in manifest["files"]:
            return f"it holds no {name} (save_only_model=True?)"
    if manifest["processes"] != processes:
        return f"it was written by {manifest['processes']} processes and this run has {processes}"
    written = manifest.get("engine", "ddp")
    if engine not in (None, written):
        return f"it was written under {written} and this run uses {engine}"
    return None


def newest(output: Path, processes: int, healthy_only: bool = False, engine: str | None = None) -> Path | None:
    """The newest complete checkpoint in `output`; those that are skipped are named in a warning."""
    for folder in reversed(_by_step(output)):
        problem = defect(folder, processes, engine)
        if problem is not None:
            logger.warning("Skipping %s: %s.", folder.name, problem)
        elif not healthy_only or _manifest(folder)["healthy"]:
            return folder
    return None


def resolve(trainer: JointConjecturerProverTrainer, resume: str | bool | None) -> Path | None:
    """The checkpoint that `resume` means; CheckpointError if it is absent or incomplete."""
    processes, output = trainer.accelerator.num_processes, Path(trainer.args.output_dir)
    engine = trainer.engine.name
    if isinstance(resume, str) and resume.lower() in ("true", "false"):
        resume = resume.lower() == "true"  # the command line passes words
    if not resume:
        return None
    if resume is True:
        folder = newest(output, processes, engine=engine)
        if folder is None:
            raise CheckpointError(
                f"There is no complete checkpoint in {output} to resume from; start without resume_from_checkpoint."
            )
        return folder
    folder = Path(resume)
    problem = defect(folder, processes, engine)
    if problem is not None:
        raise CheckpointError(
            f"Cannot resume from {folder}: {problem}; pass true to take the newest complete checkpoint."
        )
    return folder


def load_state(trainer: JointConjecturerProverTrainer, folder: Path) -> None:
    """Curriculum and guard as they were; the stock Trainer loads weights, optimizer, schedule and RNG."""
    state = json.loads((folder / STATE).read_text())
    here = {"roles": list(trainer.roles), "policy_sharing": trainer.args.policy_sharing}
    for name, value in here.items():
        if state[name] != value:
            raise CheckpointError(
                f"Cannot resume from {folder}: its {name} is {state[name]} and this run's is {value}."
            )
    trainer.curriculum.load_state_dict(state["curriculum"])
    trainer.guard.load_state_dict(state["guard"])
    for role, objective in trainer.objectives.items():
        saved = state["objectives"][role]
        if saved["class"] != type(objective).__name__:
            raise CheckpointError(
                f"Cannot resume from {folder}: the {role}'s objective there is {saved['class']} and this run's is "
                f"{type(objective).__name__}; resume with the objectives of the run that wrote it."
            )
        if hasattr(objective, "load_state_dict"):
            objective.load_state_dict(saved["state"])
    for role, replay in trainer.replays.items():
        replay.load(folder / _kept_samples(role))
    for role, loss in trainer.losses.items():
        loss.entropy.load_state_dict(state["entropy"][role])
    if trainer.solve_rate is not None and state.get("solve_rate"):
        trainer.solve_rate.load_state_dict(state["solve_rate"])


# -- training
# ------------------------------------------------------------------------------------------------------------


def train_with_rollbacks(
    trainer: JointConjecturerProverTrainer,
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
    folder = resolve(trainer, resume)
    if folder is not None and 0 < trainer.args.max_steps <= (step := _manifest(folder)["step"]):
        return _already_done(trainer, folder, step)
    log = Path(trainer.args.output_dir) / ROLLBACKS
    if folder is None and trainer.accelerator.is_main_process:
        _set_aside(Path(trainer.args.output_dir))
    trainer.accelerator.wait_for_everyone()
    spent: dict[str, int] = {}
    while True:
        if folder is not None:
            load_state(trainer, folder)
            trainer.curriculum.keep_spent(spent)
            # A shared file system may show the file's last line to some processes only.
            seen = max(trainer._gather([len(_rollbacks(log))]))
            trainer.curriculum.attempt = max(trainer.curriculum.attempt, seen)
        trainer.start_rounds()
        try:
            with _no_joint_clip(trainer.args):
                return stock_train(None if folder is None else str(folder), *args, **kwargs)
        except Rollback as rollback:
            spent = trainer.curriculum.spent()
            folder = _after_trip(trainer, rollback, log)


def _already_done(trainer: JointConjecturerProverTrainer, folder: Path, step: int) -> TrainOutput:
    """The weights and state of a finished run. The stock Trainer asks whether it is done after a step only, so that it
    would play one round more at each resume."""
    said = f"{folder} is at round {step} and `max_steps` is {trainer.args.max_steps}"
    if trainer.engine.name != "ddp":
        raise CheckpointError(f"{said}: nothing is left to train; raise max_steps, or use the exported policies.")
    logger.warning("%s: nothing is left to train.", said)
    load_state(trainer, folder)
    _trl.load_weights(trainer, folder)
    trainer.state = TrainerState.load_from_json(str(folder / "trainer_state.json"))
    return TrainOutput(step, 0.0, {})


def _set_aside(output: Path) -> None:
    """Move an earlier run's files into previous-<n>: a fresh run must not roll back to, or resume from, another
    run."""
    names = ["metrics.jsonl", "metrics.discarded.jsonl", "samples.jsonl", "samples.discarded.jsonl", ROLLBACKS]
    names += ["run.json", "evaluation.json", "report.html", "plots", *(folder.name for folder in _by_step(output))]
    names += ["prover", "conjecturer", "policy"]  # what `export_policies` writes
    found = [output / name for name in names if (output / name).exists()]
    if found:
        n = 1 + sum(1 for _ in output.glob("previous-*"))
        aside = output / f"previous-{n}"
        aside.mkdir()
        for path in found:
            path.rename(aside / path.name)
        logger.warning("%s holds an earlier run; its files were moved to %s.", output, aside.name)


def _rollbacks(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def _after_trip(trainer: JointConjecturerProverTrainer, rollback: Rollback, log: Path) -> Path:
    args = trainer.args
    processes, engine = trainer.accelerator.num_processes, trainer.engine.name
    healthy = newest(Path(args.output_dir), processes, healthy_only=True, engine=engine)
    done = len(_rollbacks(log))
    seen = f"The curriculum collapsed at round {rollback.step}: {rollback.trip}"
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, RoundProgress):
            callback.close()
    if healthy is None:
        raise CollapseError(f"{seen}. There is no healthy checkpoint to go back to; set save_strategy and save_steps.")
    if done >= args.guard_max_rollbacks:
        raise CollapseError(
            f"{seen}. {done} rollbacks did not help; the last healthy checkpoint is {healthy}. "
            f"{rollback.trip.advice}, or raise guard_max_rollbacks."
        )
    logger.warning("%s. Rolling back to %s (rollback %d of %d).", seen, healthy, done + 1, args.guard_max_rollbacks)
    trainer.accelerator.wait_for_everyone()
    if trainer.accelerator.is_main_process:
        record = {"step": rollback.step, "trip": str(rollback.trip), "to": healthy.name}
        with log.open("a") as file:
            file.write(json.dumps(record) + "\n")
    trainer.accelerator.wait_for_everyone()
    trainer.engine.forget_wrapped(trainer)
    trainer.forget_optimizer()
    return healthy


@contextmanager
def _no_joint_clip(args: Any) -> Iterator[None]:
    """The stock Trainer clips all roles together at max_grad_norm; RoundEnd clips each at its own (rule 7 of the
    design)."""
    kept, args.max_grad_norm = args.max_grad_norm, 0.0
    try:
        yield
    finally:
        args.max_grad_norm = kept
