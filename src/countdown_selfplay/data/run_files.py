"""Files of a run folder: written whole or not at all, appended by whole lines, moved aside and never lost."""

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
"""Beside the weights: which roles they played, so that `eval` does not score a conjecturer as a prover."""
BASE = "base_of_adapters"
"""Folder of the base that a run's adapters lie over, where no other folder or hub id has its weights."""
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
    """The step in the name `checkpoint-<step>`."""
    return int(str(folder).rsplit("-", 1)[-1])


def checkpoint_folders(output: Path) -> list[Path]:
    """The folders `checkpoint-<step>` in `output` by rising step, complete or not."""
    return [folder for _, folder in numbered_folders(output, "checkpoint")]


def numbered_folders(folder: Path, what: str) -> list[tuple[int, Path]]:
    """(n, folder/what-n) of all that there are, by rising n."""
    matches = [(re.fullmatch(rf"{what}-(\d+)", p.name), p) for p in folder.glob(f"{what}-*") if p.is_dir()]
    return sorted((int(match[1]), place) for match, place in matches if match)


def write_atomically(path: Path, text: str) -> None:
    """Replace `path` by `text`: whoever dies or fills the disk here leaves the old file."""
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
                while data:  # an unbuffered write may take a part only
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
    """Whether `error`, or one that it came from, says that a disk or quota is full; safetensors does so in words."""
    while error is not None:
        number = error.errno if isinstance(error, OSError) else None
        if any(number == n or f"(os error {n})" in str(error) for n in (errno.ENOSPC, errno.EDQUOT)):
            return True
        error = error.__cause__ or error.__context__
    return False


def read_lines(path: Path, **fields: type) -> list[dict[str, Any]]:
    """The records of a log of this library, [] if there is none. A last line without its end is that of a process that
    was killed while it wrote: it is left out, as is what `discard_lines` would drop for it. DataError for any other
    line that is no record with `fields` of these types."""
    return _records(path, path.read_bytes().split(b"\n")[:-1], fields) if path.exists() else []


def _records(path: Path, lines: Iterable[bytes], fields: Mapping[str, type]) -> list[dict[str, Any]]:
    found = [json_object(line, path, number, _DAMAGED, **fields) for number, line in enumerate(lines, start=1)]
    for number, record in enumerate(found, start=1):
        if "to" in fields and not re.fullmatch(r"checkpoint-\d+", record["to"]):
            raise DataError(f"'{path}', line {number}: `to` is {record['to']!r}, not a checkpoint's name; {_DAMAGED}.")
    return found


def read_phases(path: Path) -> list[dict[str, Any]]:
    """The log of an iterated run: the phases that were finished."""
    found = read_lines(path, iteration=int, phase=str)
    for number, line in enumerate(found, start=1):
        if fault := lacking(line, _PHASES.get(line["phase"], {})):
            raise DataError(f"'{path}', line {number}: {fault}; {_DAMAGED}.")
    return found


def discard_lines(path: Path, step: int, field: str = "step") -> None:
    """Move the lines beyond `step` to `<name>.discarded.jsonl`, and a torn last line with them: nothing is lost and no
    step appears twice. `field` holds a line's step, or the name of the checkpoint that it belongs to."""
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
    """Take the logs of a run folder back to `step`."""
    for name in ("metrics", "samples"):
        discard_lines(output / f"{name}.jsonl", step)
    discard_lines(output / ROLLBACKS, step, field="to")


def set_aside(output: Path, found: Iterable[Path], name: str) -> Path | None:
    """Move `found` to `<output>/<name>-<n>`, a new folder; None if there is nothing to move."""
    found = [path for path in dict.fromkeys(found) if path.exists()]
    if not found:
        return None
    aside = output / f"{name}-{1 + max((n for n, _ in numbered_folders(output, name)), default=0)}"
    aside.mkdir()
    for path in found:
        path.rename(aside / path.name)
    return aside


def set_run_aside(output: Path) -> Path | None:
    """Move all files of an earlier run to previous-<n>, if there are any: a fresh run must not roll back to, or resume
    from, another one's checkpoints. They go first, for a kill in between must not leave them without their logs."""
    found = [*output.glob(".old-checkpoint-*"), *checkpoint_folders(output), *output.glob("abandoned-*")]
    found += output.glob(f"{BASE}*")
    files = [output / name for name in _OF_A_RUN]
    if any(path.exists() for path in (*found, *files)):  # else they are the user's, such as what the run starts from
        found += [p for p in output.glob("*") if (p / ROLES_FILE).is_file() or any(p.glob("round_*/model"))]
    aside = set_aside(output, [*found, *files], "previous")
    if aside is not None:
        logger.warning("%s holds an earlier run; its files were moved to %s.", output, aside.name)
    return aside


def check_run(folder: Path) -> None:
    """ConfigError unless it is the folder of a run; with those that lie in it."""
    if not (folder / "run.json").is_file():
        inside = sorted(path.parent for path in folder.glob("*/run.json")) if folder.is_dir() else []
        hint = f"; in it there are {', '.join(map(str, inside[:4]))}" if inside else ""
        raise ConfigError(f"'{folder}' is not the folder of a run (it has no run.json){hint}.")


def holds_model(folder: Path) -> bool:
    """Whether weights of Transformers or PEFT lie there."""
    return any((folder / name).is_file() for name in ("config.json", "adapter_config.json"))
