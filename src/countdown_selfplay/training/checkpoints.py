"""Checkpoints that are complete or absent: how one is written, found and checked (rollbacks.py resumes them)."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ..config.changes import allowed_names, changed_settings
from ..data.jsonl import json_file
from ..data.run_files import checkpoint_folders, disk_was_full, set_aside, step_of, write_atomically
from ..errors import CheckpointError, DataError, RunFolderError
from . import states
from .exports import export_policies, write_proposer_files
from .host import Host
from .steps import ends_round

logger = logging.getLogger(__name__)

COMPLETE = "complete.json"
FORMAT = 2
"""Of what a checkpoint holds: one that an earlier version wrote cannot be read."""
CONJECTURER_HEALTHY = "conjecturer_healthy"
"""In COMPLETE, under guard_scope=conjecturer."""
_STAGING = ".incomplete"
_OLD = ".old-"


# -- writing ----------------------------------------------------------------------------------------------------------


def save(trainer: Host, stock_save: Callable[..., None], model: Any, trial: Any) -> None:
    """Write `checkpoint-<step>`: everything into a staging folder, the list of files last, then one rename.

    A run that dies at any point leaves either the whole checkpoint under its name or none. Called by all processes; a
    RunFolderError says that the disk did not take it and what is left to resume from.
    """
    args, main = trainer.args, trainer.processes.main
    output = Path(args.output_dir)
    staging, name = output / _STAGING, f"checkpoint-{trainer.state.global_step}"
    try:
        if main:
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir(parents=True)
        trainer.processes.wait()
        trainer.engine.before_save(trainer.optimizer)
        args.output_dir = str(staging)  # where the stock Trainer puts the folder, and rotates (nothing, in here)
        try:
            stock_save(model, trial)
        finally:
            args.output_dir = str(output)
        _name_best(trainer, staging / name, output)
        trainer.processes.wait()
        if args.policy_sharing != "lora":  # PEFT has written the adapters' folders already
            export_policies(trainer, staging / name)
        if main:
            _finish(trainer, staging / name)
            _replace(staging / name, output / name)
            shutil.rmtree(staging, ignore_errors=True)
            _rotate(output, trainer.save_total_limit, trainer.state.best_model_checkpoint)
    except Exception as error:
        full = disk_was_full(error) or shutil.disk_usage(output).free < _LITTLE  # torch may not say why
        shutil.rmtree(staging, ignore_errors=True)
        if not full and not isinstance(error, OSError):
            raise
        why = os.strerror(errno.ENOSPC) if full else " ".join(str(error).split())
        raise RunFolderError(
            f"{output / name} could not be written ({why}); free space, then go on: {how_to_go_on(output)}"
        ) from error
    trainer.processes.wait()


_LITTLE = 1 << 20  # bytes that are free on a disk that counts as full


def _name_best(trainer: Host, staged: Path, output: Path) -> None:
    """The best checkpoint's path, in memory and in trainer_state.json: it lay in staging when the stock Trainer named
    it, or under another name of the run folder, which has been moved since."""
    state, name = trainer.state, f"checkpoint-{trainer.state.best_global_step}"
    if name == staged.name or (output / name).is_dir():
        state.best_model_checkpoint = str(output / name)
        if trainer.processes.main:
            state.save_to_json(str(staged / "trainer_state.json"))


def between_rounds(trainer: Host) -> bool:
    """May a checkpoint be written now? A callback of a user's own may ask after any optimizer step."""
    step, steps = trainer.state.global_step, trainer.args.steps_per_round
    if ends_round(trainer.args, step):
        return True
    logger.warning(
        "No checkpoint at step %d, in the middle of a round, which could not be resumed; ask at multiples of "
        "steps_per_round (%d).",
        step,
        steps,
    )
    return False


def _finish(trainer: Host, folder: Path) -> None:
    alone = trainer.conjecturer_guard
    facts = {
        "loop": trainer.loop,
        "roles": list(trainer.roles),
        "policy_sharing": trainer.args.policy_sharing,
        "settings": trainer.settings,
    }
    states.write(folder, states.states_of(trainer), facts)
    write_proposer_files(trainer, folder)
    manifest = {
        "step": trainer.state.global_step,
        "format": FORMAT,
        "attempt": trainer.frame.attempt,
        "healthy": trainer.guard.healthy,
        **({} if alone is None else {CONJECTURER_HEALTHY: alone.healthy}),
        "processes": trainer.processes.world,
        "engine": trainer.engine.name,
        "optimizer": trainer.engine.optimizer_file,
        "files": _digests(folder, [p for p in sorted(folder.rglob("*")) if p.is_file()], settle=True),
    }
    write_atomically(folder / COMPLETE, json.dumps(manifest, indent=1))


def _digests(folder: Path, files: list[Path], settle: bool = False) -> dict[str, list[Any]]:
    """{name: [bytes, SHA-256]}; hashing lets go of the interpreter's lock, so that each core takes a file. `settle`:
    wait until the disk holds each one, for rotation deletes older checkpoints and a power cut may follow."""

    def one(path: Path) -> list[Any]:
        with path.open("rb") as file:
            if settle:
                os.fsync(file.fileno())
            return [path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()]

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        return dict(zip((str(p.relative_to(folder)) for p in files), pool.map(one, files), strict=True))


def _replace(source: Path, target: Path) -> None:
    """Rename onto a checkpoint of the same step. Who dies between the two renames leaves the old one under a name that
    `restore_replaced` knows."""
    old = target.with_name(f"{_OLD}{target.name}")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists() and step_in(target) != step_of(target):
        set_aside(target.parent, [target], "abandoned")  # a copy of another step under this name
    if target.exists():
        target.rename(old)
    source.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def restore_replaced(output: Path) -> None:
    """Give a checkpoint that was being replaced when the process died its name back; one that has been replaced goes,
    or a later call would take it for the former."""
    for old in output.glob(f"{_OLD}checkpoint-*"):
        target = output / old.name.removeprefix(_OLD)
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(target)


def _rotate(output: Path, limit: int | None, best: str | None) -> None:
    """Keep the newest `limit` checkpoints, and beyond them the best one, the newest healthy one and the two newest
    with a healthy conjecturer (conjecturer_back.py); of abandoned ones as many."""
    if not limit or limit <= 0:
        return
    found = checkpoints(output)
    healthy = [folder for folder in found if manifest_of(folder).get("healthy")]
    alone = [folder for folder in found if manifest_of(folder).get(CONJECTURER_HEALTHY)]
    protected = {*found[-limit:], *healthy[-1:], *alone[-2:], *([Path(best)] if best else [])}
    abandoned = [p for aside in sorted(output.glob("abandoned-*"), key=step_of) for p in checkpoint_folders(aside)]
    for folder in [*found, *abandoned[:-limit]]:
        if folder not in protected:
            shutil.rmtree(folder, ignore_errors=True)


# -- finding and checking ---------------------------------------------------------------------------------------------


_FIELDS: dict[str, type] = {"step": int, "attempt": int, "healthy": bool, "processes": int, "files": dict}


def manifest_of(folder: Path) -> dict[str, Any]:
    """What COMPLETE says; {} without a readable one. Of another FORMAT it may say anything."""
    try:
        found = json_file(folder / COMPLETE)
        if found.get("format") != FORMAT:
            return found
        json_file(folder / COMPLETE, "", **_FIELDS)
    except DataError:
        return {}
    return found if all(isinstance(d, list) and len(d) == 2 for d in found["files"].values()) else {}


def step_in(folder: Path) -> int:
    """The step that a checkpoint was written at, which a copy of it under another name keeps."""
    manifest = manifest_of(folder)
    return int(manifest["step"]) if manifest.get("format") == FORMAT else step_of(folder)


def checkpoints(output: Path) -> list[Path]:
    """The folders `checkpoint-<step>` in `output` by the step that they were written at, complete or not; of several
    of one step the one that is called after it comes last."""
    keys = {folder: step_in(folder) for folder in checkpoint_folders(output)}
    return sorted(keys, key=lambda folder: (keys[folder], step_of(folder) == keys[folder]))


def defect(folder: Path, processes: int, engine: str | None = None, contents: bool = True) -> str | None:
    """What keeps `folder` from being resumed, in a few words, or None. The stock Trainer would resume without an
    optimizer, RNG or curriculum and say nothing. `contents`: compare digests too and not sizes alone."""
    if not folder.is_dir():
        return "there is no such folder"
    manifest = manifest_of(folder)
    if not manifest:
        return f"it has no readable {COMPLETE}: the run stopped while writing it, or it is not a self-play checkpoint"
    if manifest.get("format") != FORMAT:
        return "another version of countdown-selfplay wrote it; finish that run with that version, or start a new one"
    for name, (size, _) in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes instead of {size}"
    for name in (manifest.get("optimizer", "optimizer.pt"), "scheduler.pt", "trainer_state.json", states.FILE):
        if name not in manifest["files"]:
            return f"it holds no {name} (save_only_model=True?)"
    if manifest["processes"] != processes:
        return f"it was written by {manifest['processes']} processes and this run has {processes}"
    written = manifest.get("engine", "ddp")
    if engine not in (None, written):
        return f"it was written under {written} and this run uses {engine}"
    if contents:
        found = _digests(folder, [folder / name for name in manifest["files"]])
        for name, what in manifest["files"].items():
            if found[name] != what:
                return f"{name} is damaged: its contents are not those that were written"
    return None


def newest(
    output: Path, processes: int, healthy_only: bool = False, engine: str | None = None, contents: bool = True
) -> Path | None:
    """The newest complete checkpoint in `output`; those that are skipped are named in a warning."""
    for folder in reversed(checkpoints(output)):
        problem = defect(folder, processes, engine, contents)
        if problem is not None:
            logger.warning("Skipping %s: %s.", folder.name, problem)
        elif not healthy_only or manifest_of(folder)["healthy"]:
            return folder
    return None


def how_to_go_on(output: Path) -> str:
    """A sentence for a run that has stopped: its newest checkpoint, and what resumes it."""
    complete = [folder for folder in checkpoints(output) if manifest_of(folder)]
    if not complete:
        return "no checkpoint has been written, so start again (save_strategy and save_steps say when one is)."
    return (
        f"the newest checkpoint is {complete[-1]}; resume with trainer.train(resume_from_checkpoint=True), on the "
        "command line --resume_from_checkpoint true."
    )


def changes(trainer: Host, folder: Path, state: dict[str, Any] | None = None) -> dict[str, list[Any]]:
    """The settings that differ from those of the run that wrote `folder`, as {name: [there, here]}; CheckpointError if
    one must not. `state`: of the checkpoint, where it has been read."""
    state = states.read(folder) if state is None else state
    here = {"roles": list(trainer.roles), "policy_sharing": trainer.args.policy_sharing}
    for name, value in here.items():
        if state[name] != value:
            raise CheckpointError(
                f"Cannot resume from {folder}: its {name} is {state[name]} and this run's is {value}."
            )
    allowed = allowed_names(trainer.args.allow_changed)
    more = {"train_dataset": _changed_targets(trainer, state)}
    return changed_settings(state.get("settings", {}), trainer.settings, allowed, folder, more)


def _changed_targets(trainer: Host, state: dict[str, Any]) -> str:
    """What a proposer with targets, whose state holds their keys, says of a data set that changed; "" where this run's
    proposer or that of the checkpoint is another."""
    changed = getattr(getattr(trainer.game, "proposer", None), "changed", None)
    known = state["states"].get("game", {}).get("state", {}).get("proposer")
    keys = None if trainer.solve_rate is None else trainer.solve_rate.keys
    return "" if changed is None or keys is None or "known" not in (known or {}) else changed(known, keys)


def load_state(trainer: Host, folder: Path) -> dict[str, list[Any]]:
    """Curriculum and guard as they were; the stock Trainer loads weights, optimizer, schedule and RNG. Returns the
    settings that differ from those of the run that wrote it and may, as {name: [there, here]}."""
    state = states.read(folder)
    changed = changes(trainer, folder, state)
    parts = states.states_of(trainer)
    if "train_dataset" in changed:
        parts.pop("solve_rate", None)  # it counts the problems of another data set
    states.load(parts, state["states"])
    trainer.loop = state.get("loop", {})  # put back by RoundEnd, once the Trainer has set up its loop
    return changed
