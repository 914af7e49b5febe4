"""Checkpoint folders: states of a run's parts, atomic replacement, rotation, search, verification and rollback."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from ..contract.stateful import Stateful
from ..data.jsonl import json_file
from ..data.run_files import (
    GOING_BACK,
    ROLLBACKS,
    checkpoint_folders,
    discard_logs,
    read_lines,
    set_aside,
    step_of,
    write_atomically,
)
from ..errors import ConfigError, DataError, GameError

logger = logging.getLogger(__name__)

STATES, ARRAYS = "selfplay_state.json", "selfplay_state.safetensors"
_ARRAY = "__array__"


def check_state(name: str, part: object) -> None:
    """Raise GameError if a part's `state_dict` fails or returns a value that a checkpoint cannot hold."""
    if not isinstance(part, Stateful):
        return
    try:
        state = part.state_dict()
    except Exception as error:  # a user's code may raise anything
        raised = f"`state_dict` of {type(part).__name__} raised {type(error).__name__}: {error}"
        raise GameError(f"{raised}; it must have an answer before the first round too.") from error
    _packed(name, state, {})


def refuse_class(name: str, part: object) -> None:
    """Raise ConfigError if `part` is a class and not an instance."""
    if isinstance(part, type):
        raise ConfigError(f"`{name}` is the class {part.__name__}; pass an object of it, such as {part.__name__}().")


def write_states(folder: Path, states: Mapping[str, Stateful], facts: Mapping[str, Any]) -> None:
    """Write states of parts: JSON values to STATES, arrays to ARRAYS. `facts`: further JSON values for STATES."""
    packed, arrays = {}, dict[str, np.ndarray]()
    for name, part in states.items():
        packed[name] = {"class": type(part).__name__, "state": _packed(name, part.state_dict(), arrays)}
    (folder / STATES).write_text(json.dumps({**facts, "states": packed}))
    if arrays:
        save_file(arrays, folder / ARRAYS)


def read_states(folder: Path) -> dict[str, Any]:
    """Read the files of `write_states`; return the facts, and under "states" the class and state of each part."""
    states = json.loads((folder / STATES).read_text())
    arrays = load_file(folder / ARRAYS) if (folder / ARRAYS).is_file() else {}
    states["states"] = {name: _unpacked(part, arrays) for name, part in states["states"].items()}
    return states


def load_states(states: Mapping[str, Stateful], saved: Mapping[str, Any]) -> None:
    """Load each part's state. A part whose class differs from the saved one keeps its initial state."""
    for name, part in states.items():
        if name in saved and saved[name]["class"] == type(part).__name__:
            part.load_state_dict(saved[name]["state"])


def _packed(name: str, value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Return `value` with each array moved to `arrays` and replaced by its name. Raises GameError for other types."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        arrays[name] = np.asarray(value, order="C")
        return {_ARRAY: name}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _packed(f"{name}/{key}", inner, arrays) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_packed(f"{name}/{i}", inner, arrays) for i, inner in enumerate(value)]
    if value is None or isinstance(value, str | int | float):
        return value
    raise GameError(
        f"The state of {name} is {str(value)[:60]!r} of type {type(value).__name__}; `state_dict` must return None, "
        "numbers, texts, lists, dicts with text keys, and NumPy arrays of numbers."
    )


def _unpacked(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(value, dict):
        if set(value) == {_ARRAY}:
            return arrays[value[_ARRAY]]
        return {key: _unpacked(inner, arrays) for key, inner in value.items()}
    return [_unpacked(inner, arrays) for inner in value] if isinstance(value, list) else value


COMPLETE = "complete.json"
FORMAT = 3
"""Version of the checkpoint format; checkpoints of other versions cannot be resumed."""
CONJECTURER_HEALTHY = "conjecturer_healthy"
"""Key in COMPLETE, under guard_scope=conjecturer: whether the conjecturer was healthy."""
_OLD = ".old-"


def digests(folder: Path, files: list[Path], settle: bool = False) -> dict[str, list[Any]]:
    """Return {name: [bytes, SHA-256]}, computed by up to 8 threads. `settle`: call fsync for each file, because
    rotation deletes older checkpoints and a power cut may follow."""

    def one(path: Path) -> list[Any]:
        with path.open("rb") as file:
            if settle:
                os.fsync(file.fileno())
            return [path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()]

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        return dict(zip((str(p.relative_to(folder)) for p in files), pool.map(one, files), strict=True))


def replace_checkpoint(source: Path, target: Path) -> None:
    """Rename `source` to `target`; delete the old `target`, or set it aside if it is a copy of another step."""
    old = target.with_name(f"{_OLD}{target.name}")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists() and step_in(target) != step_of(target):
        set_aside(target.parent, [target], "abandoned")  # a copy of another step under this name
    if target.exists():
        target.rename(old)
    source.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def restore_replaced(output: Path) -> None:
    """Repair interrupted calls of `replace_checkpoint`: restore the old folder, or delete it if the new one exists."""
    for old in output.glob(f"{_OLD}checkpoint-*"):
        target = output / old.name.removeprefix(_OLD)
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(target)


def rotate(output: Path, limit: int | None, best: str | None) -> None:
    """Delete all checkpoints but the newest `limit`, the best one, the newest healthy one and the two newest with a
    healthy conjecturer; of abandoned checkpoints, keep the newest `limit`."""
    if not limit or limit <= 0:
        return
    saved = checkpoints(output)
    healthy = [folder for folder in saved if manifest_of(folder).get("healthy")]
    alone = [folder for folder in saved if manifest_of(folder).get(CONJECTURER_HEALTHY)]
    protected = {*saved[-limit:], *healthy[-1:], *alone[-2:], *([Path(best)] if best else [])}
    abandoned = [p for aside in sorted(output.glob("abandoned-*"), key=step_of) for p in checkpoint_folders(aside)]
    for folder in [*saved, *abandoned[:-limit]]:
        if folder not in protected:
            shutil.rmtree(folder, ignore_errors=True)


_FIELDS: dict[str, type] = {"step": int, "attempt": int, "healthy": bool, "processes": int, "files": dict}
_FIELDS |= {"engine": str, "optimizer": str}


def manifest_of(folder: Path) -> dict[str, Any]:
    """Return the contents of COMPLETE, or {} if it is absent or invalid. Fields of another FORMAT are not checked."""
    try:
        manifest = json_file(folder / COMPLETE)
        if manifest.get("format") != FORMAT:
            return manifest
        json_file(folder / COMPLETE, "", **_FIELDS)
    except DataError:
        return {}
    return manifest if all(isinstance(d, list) and len(d) == 2 for d in manifest["files"].values()) else {}


def step_in(folder: Path) -> int:
    """Return the step that a checkpoint records, or else the step in its name (a renamed copy differs)."""
    manifest = manifest_of(folder)
    return int(manifest["step"]) if manifest.get("format") == FORMAT else step_of(folder)


def checkpoints(output: Path) -> list[Path]:
    """Return the folders `checkpoint-<step>` in `output`, complete or not, sorted by the step at which they were
    written. Among several of the same step, the one whose name has that step comes last."""
    keys = {folder: step_in(folder) for folder in checkpoint_folders(output)}
    return sorted(keys, key=lambda folder: (keys[folder], step_of(folder) == keys[folder]))


def defect(folder: Path, processes: int, engine: str | None = None, contents: bool = True) -> str | None:
    """Return the reason why `folder` cannot be resumed, or None. The stock Trainer would silently resume without
    optimizer, RNG or curriculum. `contents`: compare digests in addition to sizes."""
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
    for name in (manifest["optimizer"], "scheduler.pt", "trainer_state.json", STATES):
        if name not in manifest["files"]:
            return f"it holds no {name} (save_only_model=True?)"
    if manifest["processes"] != processes:
        return f"it was written by {manifest['processes']} processes and this run has {processes}"
    if engine not in (None, manifest["engine"]):
        return f"it was written under {manifest['engine']} and this run uses {engine}"
    if contents:
        actual = digests(folder, [folder / name for name in manifest["files"]])
        for name, what in manifest["files"].items():
            if actual[name] != what:
                return f"{name} is damaged: its contents are not those that were written"
    return None


def newest(output: Path, processes: int, healthy_only: bool = False, engine: str | None = None) -> Path | None:
    """Return the newest complete checkpoint in `output` or None; log a warning for each defective one."""
    for folder in reversed(checkpoints(output)):
        problem = defect(folder, processes, engine)
        if problem is not None:
            logger.warning("Skipping %s: %s.", folder.name, problem)
        elif not healthy_only or manifest_of(folder)["healthy"]:
            return folder
    return None


def healthy_conjecturer(output: Path, sampled: int, processes: int, engine: str) -> Path | None:
    """Return the newest complete checkpoint with a healthy conjecturer before step `sampled` (the weights of that step
    wrote the proposals), else the newest later one or None. The code of Allen and Ståblein goes two back."""
    known = [folder for folder in reversed(checkpoints(output)) if manifest_of(folder).get(CONJECTURER_HEALTHY)]
    known.sort(key=lambda folder: step_in(folder) >= sampled)  # stable: the newest first
    return next((folder for folder in known if defect(folder, processes, engine) is None), None)


def how_to_go_on(output: Path) -> str:
    """Return a sentence for an interrupted run that names its newest checkpoint and the way to resume it."""
    complete = [folder for folder in checkpoints(output) if manifest_of(folder)]
    if not complete:
        return "no checkpoint has been written, so start again (save_strategy and save_steps say when one is)."
    cure = "resume with trainer.train(resume_from_checkpoint=True), or --resume_from_checkpoint true"
    return f"the newest checkpoint is {complete[-1]}; {cure}."


# Going back: files beyond the checkpoint are set aside first, because no later resume, rollback or rotation may use
# checkpoints of an abandoned trajectory. All steps are repeated if the process was interrupted among them.

_UNKNOWN_WAY = "it says to which step a way back had begun: remove it, and resume from a checkpoint's folder by name"
_RECORD: dict[str, type] = {"to": str, "attempt": int, "spent": dict}
"""Fields of a line of ROLLBACKS."""


def finish_going_back(output: Path) -> None:
    """Complete the interrupted work of an earlier process: a replacement, a rollback, and the removal of checkpoints
    that a rollback abandoned (later than its target and of an earlier attempt)."""
    restore_replaced(output)
    if (output / GOING_BACK).exists():
        bring(output, json_file(output / GOING_BACK, _UNKNOWN_WAY, to=int)["to"])
    given_up = []
    for record in rollbacks_of(output):
        later = [folder for folder in checkpoints(output) if step_in(folder) > step_of(record["to"])]
        given_up += [folder for folder in later if manifest_of(folder).get("attempt", math.inf) < record["attempt"]]
    _abandon(output, given_up)


def rollbacks_of(output: Path) -> list[dict[str, Any]]:
    """Return the rollbacks that a run folder records."""
    return read_lines(output / ROLLBACKS, **_RECORD)


def _abandon(output: Path, folders: list[Path]) -> None:
    aside = set_aside(output, folders, "abandoned")
    if aside is not None:
        names = ", ".join(sorted({folder.name for folder in folders}, key=step_of))
        logger.warning("%s of the trajectory that is given up: moved to %s.", names, aside)


def bring(output: Path, step: int) -> list[dict[str, Any]]:
    """Set aside the checkpoints after `step` and cut the logs there; return the recorded rollbacks."""
    later = [folder for folder in checkpoints(output) if step_in(folder) > step]
    if later:
        write_atomically(output / GOING_BACK, json.dumps({"to": step}))
        _abandon(output, later)
    discard_logs(output, step)
    (output / GOING_BACK).unlink(missing_ok=True)
    return rollbacks_of(output)
