"""Writing answers so that a kill at any moment loses at most one batch, and going on where the file ends."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any

from ..errors import ConfigError, DataError
from .answers import Answer, first_difference, header_line, scan


class AnswerFile(AbstractContextManager["AnswerFile"]):
    """An evaluation's JSONL file, open to go on with. `rows`: the answers of the whole batches that it holds.

    `batches` are those of `batches_of`. Rows after the last whole batch (a line or a batch cut by a kill) are taken
    off. Use it as a context manager. DataError if the file is damaged or is something else; ConfigError names the
    first field in which its setting differs, or says that another process is writing it.
    """

    def __init__(self, path: Path, setting: Mapping[str, Any], batches: Sequence[Sequence[int]]) -> None:
        self.path = path
        self.rows: list[Answer] = []
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[bytes] = path.open("ab")
        except OSError as error:
            raise ConfigError(f"`--output` ({path}) cannot be written: {error.strerror}.") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.batches_done = self._resume(dict(setting), batches)
        except BaseException as error:
            self._file.close()
            if isinstance(error, BlockingIOError):
                raise ConfigError(f"`--output` ({path}) is being written by another process; wait for it.") from None
            raise

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, rows: Iterable[Answer]) -> None:
        """Write one batch; it is on the disk when this returns."""
        rows = list(rows)
        self._write("".join(row.to_json() + "\n" for row in rows))
        self.rows += rows

    def _resume(self, setting: dict[str, Any], batches: Sequence[Sequence[int]]) -> int:
        old, found, start = scan(self.path)
        if old is None:
            self._file.truncate(0)
            self._write(header_line(setting) + "\n")
            return 0
        differing = first_difference(old, json.loads(json.dumps(setting)))
        if differing is not None:
            name, before, now = differing
            raise ConfigError(
                f"`--output` ({self.path}) was begun with {name} {before!r} and this evaluation has {now!r}; go on "
                "with the same setting, or name another file."
            )
        n, done, position = int(setting["n"]), 0, 0
        for batch in batches:
            rows = [row for row, _ in found[position : position + n * len(batch)]]
            places = [(index, sample) for index in batch for sample in range(n)]
            if [(row.index, row.sample) for row in rows] != places[: len(rows)]:
                raise DataError(f"'{self.path}' is damaged: its rows are not in the order they are written in.")
            if len(rows) < len(places):
                break
            self.rows += rows
            position += len(rows)
            start = found[position - 1][1]
            done += 1
        self._file.truncate(start)
        return done

    def _write(self, text: str) -> None:
        try:
            self._file.write(text.encode())
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise ConfigError(f"`--output` ({self.path}) cannot be written: {error.strerror}.") from error
