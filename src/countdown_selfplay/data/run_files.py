"""Files of a run folder: written atomically, extended by whole lines, moved aside and never deleted."""

import errno
import json
import logging
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import ConfigError, DataError, RunFolderError
from .jsonl import json_object, lacking

logger = logging.getLogger(__name__)

ROLES_FILE = "countdown_selfplay.json"
"""File with the roles of the weights in its folder, so that `eval` does not score a conjecturer as a prover."""
BASE = "base_of_adapters"
"""Folder for the base model of a run's adapters, if that model has no other folder or hub id."""
ROLLBACKS = "rollbacks.jsonl"
GOING_BACK = ".going_back.json"
_PHASES: dict[str, dict[str, type]] = {"play": {"samples": int}, "train": {"role": str, "rows": int}}
_DAMAGED = "the file is damaged: put it back as the run wrote it"
_LOGS = ("metrics", "samples", "rollbacks")
_OF_A_RUN = (
    *(f"{name}{kind}.jsonl" for name in _LOGS for kind in ("", ".discarded")),
    *("run.json", "evaluation.json", "control.json", "first_solved.json", "targets.json", "report.html", "plots"),
    *("control", "run.json.damaged", GOING_BACK),
)


def step_of(folder: Path | str) -> int:
    """Return the step in the name `checkpoint-<step>`."""
    return int(str(folder).rsplit("-", 1)[-1])


def checkpoint_folders(output: Path) -> list[Path]:
    """Return the folders `checkpoint-<step>` in `output` by ascending step, complete or not."""
    return [folder for _, folder in numbered_folders(output, "checkpoint")]


def numbered_folders(folder: Path, what: str) -> list[tuple[int, Path]]:
    """Return (n, path) of all existing folders `<what>-<n>` in `folder`, by ascending n."""
    matches = [(re.fullmatch(rf"{what}-(\d+)", p.name), p) for p in folder.glob(f"{what}-*") if p.is_dir()]
    return sorted((int(match[1]), place) for match, place in matches if match)


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` by `text`; an interruption or a full disk leaves the old file."""
    new = path.with_name(f".{path.name}.new")
    try:
        with new.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        with suppress(OSError):
            new.unlink()
        raise _unwritable(path, error) from error


def append_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Append one line of JSON per record: all of them, or none if the disk is full."""
    data = "".join(json.dumps(record) + "\n" for record in records).encode()
    if not data:
        return
    try:
        with path.open("ab", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            try:
                while data:  # an unbuffered write may be partial
                    data = data[file.write(data) :]
                os.fsync(file.fileno())
            except OSError:
                file.truncate(end)
                raise
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> RunFolderError:
    return RunFolderError(f"{path} cannot be written ({error.strerror}); free space or mend the rights, then resume.")


def disk_was_full(error: BaseException | None) -> bool:
    """Return whether `error`, or one of its causes, reports a full disk or quota, by its errno or in its text."""
    while error is not None:
        number = error.errno if isinstance(error, OSError) else None
        if any(number == n or f"(os error {n})" in str(error) for n in (errno.ENOSPC, errno.EDQUOT)):
            return True
        error = error.__cause__ or error.__context__
    return False


def read_lines(path: Path, **fields: type) -> list[dict[str, Any]]:
    """Return the records of a log of this library, [] if the file is absent. An unfinished last line, left by an
    interrupted write, is skipped. Raises DataError for any other line that is not a JSON object with `fields` (name:
    type)."""
    return _records(path, path.read_bytes().split(b"\n")[:-1], fields) if path.exists() else []


def _records(path: Path, lines: Iterable[bytes], fields: Mapping[str, type]) -> list[dict[str, Any]]:
    records = [json_object(line, path, number, _DAMAGED, **fields) for number, line in enumerate(lines, start=1)]
    for number, record in enumerate(records, start=1):
        if "to" in fields and not re.fullmatch(r"checkpoint-\d+", record["to"]):
            raise DataError(f"'{path}', line {number}: `to` is {record['to']!r}, not a checkpoint's name; {_DAMAGED}.")
    return records


def read_phases(path: Path) -> list[dict[str, Any]]:
    """Return the finished phases in the log of an iterated run. Raises DataError for a damaged line."""
    phases = read_lines(path, iteration=int, phase=str)
    for number, line in enumerate(phases, start=1):
        if fault := lacking(line, _PHASES.get(line["phase"], {})):
            raise DataError(f"'{path}', line {number}: {fault}; {_DAMAGED}.")
    return phases


def discard_lines(path: Path, step: int, field: str = "step") -> None:
    """Move the lines of steps after `step`, and an unfinished last line, to `<name>.discarded.jsonl`, so that no step
    occurs twice after a resume. `field`: field with a line's step, or with the name of its checkpoint."""
    if not path.exists():
        return
    *lines, torn = path.read_bytes().split(b"\n")
    records = _records(path, lines, {field: str if field == "to" else int})
    beyond = [record for record in records if step_of(record[field]) > step]
    if beyond or torn:
        kept = [line for line, record in zip(lines, records, strict=True) if step_of(record[field]) <= step]
        beyond += [{"torn": torn.decode(errors="replace")}] if torn else []
        append_lines(path.with_suffix(".discarded.jsonl"), beyond)
        write_atomically(path, "".join(line.decode() + "\n" for line in kept))


def discard_logs(output: Path, step: int) -> None:
    """Discard the lines of all logs of a run folder after `step`."""
    for name in ("metrics", "samples"):
        discard_lines(output / f"{name}.jsonl", step)
    discard_lines(output / ROLLBACKS, step, field="to")


def set_aside(output: Path, paths: Iterable[Path], name: str) -> Path | None:
    """Move `paths` to a new folder `<output>/<name>-<n>` and return it; return None if no path exists."""
    paths = [path for path in dict.fromkeys(paths) if path.exists()]
    if not paths:
        return None
    aside = output / f"{name}-{1 + max((n for n, _ in numbered_folders(output, name)), default=0)}"
    aside.mkdir()
    for path in paths:
        path.rename(aside / path.name)
    return aside


def set_run_aside(output: Path) -> Path | None:
    """Move all files of an earlier run to previous-<n>, checkpoints first: a new run must not resume from old
    checkpoints, even if the move is interrupted."""
    paths = [*output.glob(".old-checkpoint-*"), *checkpoint_folders(output), *output.glob("abandoned-*")]
    paths += output.glob(f"{BASE}*")
    files = [output / name for name in _OF_A_RUN]
    if any(path.exists() for path in (*paths, *files)):  # else they are the user's, such as the initial weights
        paths += [p for p in output.glob("*") if (p / ROLES_FILE).is_file() or any(p.glob("round_*/model"))]
    aside = set_aside(output, [*paths, *files], "previous")
    if aside is not None:
        logger.warning("%s holds an earlier run; its files were moved to %s.", output, aside.name)
    return aside


def check_run(folder: Path) -> None:
    """Raise ConfigError, which names runs inside the folder, unless the folder is that of a run."""
    if not (folder / "run.json").is_file():
        raise ConfigError(f"'{folder}' is not the folder of a run (it has no run.json).{runs_in(folder)}")


def runs_in(folder: Path) -> str:
    """Return a sentence that lists the run folders in `folder`, "" without one."""
    folders = sorted(path.parent for path in folder.glob("*/run.json")) if os.path.isdir(folder) else []  # noqa: PTH112
    more = f" and {len(folders) - 3} more" if len(folders) > 3 else ""
    return f" Runs that are there: {', '.join(map(str, folders[:3]))}{more}." if folders else ""


def holds_model(folder: Path) -> bool:
    """Return whether the folder has the config file of a Transformers model or of a PEFT adapter."""
    return any((folder / name).is_file() for name in ("config.json", "adapter_config.json"))
