"""Readers of JSON and JSONL objects with required fields, and of Parquet. They raise DataError for invalid files."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import CountdownSelfPlayError, DataError

_WORDS = {dict: "an object", list: "a list", str: "a text", int: "a whole number", float: "a number"}
_WORDS |= {bool: "true or false", type(None): "null"}


def json_lines(path: Path, cure: str = "") -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) of each line that is not blank. Raises DataError, whose message ends in `cure`."""
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, json_object(line, path, number, cure)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise DataError(f"'{path}' cannot be read: {reason}{cure and '; ' + cure}.") from None


def json_file(path: Path, cure: str = "", **fields: type) -> dict[str, Any]:
    """Return the single object of a file, on any number of lines. `fields`: required fields and their types."""
    try:
        fields_read = _object(path.read_bytes(), fields)
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror}{cure and '; ' + cure}.") from None
    if isinstance(fields_read, str):
        raise DataError(f"'{path}' does not hold {_wanted(fields)} ({fields_read}){cure and '; ' + cure}.")
    return fields_read


def json_rows(path: Path, cure: str = "") -> list[dict[str, Any]]:
    """Return the objects of a data file: JSONL, a list of objects, or one object on several lines."""
    try:
        with path.open("rb") as file:
            is_list = file.read(1 << 16).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"["
            file.seek(0)
            rows = _parsed(file.read()) if is_list else None
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror}{cure and '; ' + cure}.") from None
    if isinstance(rows, str):
        raise DataError(f"'{path}' does not hold a list of JSON objects ({rows}){cure and '; ' + cure}.")
    if rows is not None:
        for number, row in enumerate(rows):
            if not isinstance(row, dict):
                what = f"row {number}: this is not a JSON object (it is {_WORDS[type(row)]})"
                raise DataError(f"'{path}', {what}{cure and '; ' + cure}.")
        return rows
    try:
        return [row for _, row in json_lines(path, cure)]
    except DataError:
        if path.suffix != ".json":
            raise
        return [json_file(path, cure)]


def json_object(line: str | bytes, path: Path, number: int, cure: str = "", **fields: type) -> dict[str, Any]:
    """Return the object of `line`, which errors call line `number` of `path`. `fields`: required fields and types."""
    row = _object(line.strip(), fields)
    if isinstance(row, str):
        raise DataError(f"'{path}', line {number}: this is not {_wanted(fields)} ({row}){cure and '; ' + cure}.")
    return row


@contextmanager
def json_shape(path: Path, what: str, cure: str, **fields: type) -> Iterator[dict[str, Any]]:
    """Yield the object of a file; convert errors of the with-block about missing values or types to DataError. `what`:
    expected content, such as "the round in which each problem was solved"."""
    content = json_file(path, cure, **fields)
    try:
        yield content
    except CountdownSelfPlayError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise DataError(f"'{path}' does not say {what} ({why}); {cure}.") from None


def _wanted(fields: Mapping[str, type]) -> str:
    return f"a JSON object with {' and '.join(f'`{name}`' for name in fields)}" if fields else "a JSON object"


def _object(text: str | bytes, fields: Mapping[str, type]) -> dict[str, Any] | str:
    """Return the object of a text, or the reason why it is not one."""
    value = _parsed(text)
    if isinstance(value, str):
        return value
    return lacking(value, fields) or value if isinstance(value, dict) else f"it is {_WORDS[type(value)]}"


def _parsed(text: str | bytes) -> Any:
    """Return the value of a JSON text, or a str that describes the fault: invalid JSON, or a string as value."""
    try:
        value = json.loads(text)
    except RecursionError:
        return "it is nested too deeply"
    except UnicodeDecodeError:
        return "it is not UTF-8 text"
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, " if error.lineno > 1 else ""
        return f"{error.msg}, {where}column {error.colno}" if text.strip() else "it is empty"
    except ValueError:
        return "a number has too many digits"
    return "it is a text" if isinstance(value, str) else value


def lacking(row: Mapping[str, Any], fields: Mapping[str, type]) -> str | None:
    """Describe a missing field of an object, or one of another type; None if it has all `fields`."""
    for name, kind in fields.items():
        if name not in row:
            return f"there is no `{name}`"
        if not isinstance(row[name], kind) or isinstance(row[name], bool) is not (kind is bool):
            return f"`{name}` is {row[name]!r:.40}, not {_WORDS[kind]}"
    return None


def parquet_rows(path: Path, columns: Sequence[str] | None = None, cure: str = "") -> list[dict[str, Any]]:
    """Return the rows of a Parquet file, all columns or `columns`. `cure`: remedy for an unreadable file."""
    import pyarrow.parquet

    try:
        return list(pyarrow.parquet.read_table(path, columns=columns and list(columns)).to_pylist())
    except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
        first = (str(error).splitlines() or [type(error).__name__])[0].rpartition(f"'{path}': ")[2]
        why = first.partition(". ")[0][:80]
        raise DataError(f"'{path}' cannot be read as Parquet ({why}){cure and '; ' + cure}.") from None
