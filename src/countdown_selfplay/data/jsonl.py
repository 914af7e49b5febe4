"""Reading JSON and JSONL: objects, and a DataError that names file and line for everything else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import DataError


def json_lines(path: Path, cure: str = "") -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) of each line that is not blank, read one at a time. `cure`: what to do about a line that
    is something else."""
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, json_object(line, path, number, cure)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise DataError(f"'{path}' cannot be read: {reason}.") from None


def json_file(path: Path, cure: str = "") -> dict[str, Any]:
    """The one object that a file holds, on any number of lines."""
    try:
        found = _object(path.read_bytes())
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror}.") from None
    if found is None:
        raise DataError(f"'{path}' does not hold a JSON object{cure and '; ' + cure}.")
    return found


def json_object(line: str | bytes, path: Path, number: int, cure: str = "") -> dict[str, Any]:
    """The object of one line."""
    found = _object(line)
    if found is None:
        raise DataError(f"'{path}', line {number}: this is not a JSON object{cure and '; ' + cure}.")
    return found


def _object(text: str | bytes) -> dict[str, Any] | None:
    """The object that a text is, or None."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
