"""Reading JSON and JSONL objects with given fields, and Parquet. Else a DataError: file, line, fault and cure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import CountdownSelfPlayError, DataError

_WORDS = {dict: "an object", list: "a list", str: "a text", int: "a whole number", float: "a number"}
_WORDS |= {bool: "true or false", type(None): "null"}


def json_lines(path: Path, cure: str = "") -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) of each line that is not blank, read one at a time. `cure`: the end of an error."""
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, json_object(line, path, number, cure)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise DataError(f"'{path}' cannot be read: {reason}{cure and '; ' + cure}.") from None


def json_file(path: Path, cure: str = "", **fields: type) -> dict[str, Any]:
    """The one object that a file holds, on any number of lines, with `fields` of these types."""
    try:
        found = _object(path.read_bytes(), fields)
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror}{cure and '; ' + cure}.") from None
    if isinstance(found, str):
        raise DataError(f"'{path}' does not hold {_wanted(fields)} ({found}){cure and '; ' + cure}.")
    return found


def json_rows(path: Path, cure: str = "") -> list[dict[str, Any]]:
    """The objects of a file of data: JSONL, a list of objects, or one object on several lines."""
    try:
        with path.open("rb") as file:
            is_list = file.read(1 << 16).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"["
            file.seek(0)
            found = _parsed(file.read()) if is_list else None
    except OSError as error:
        raise DataError(f"'{path}' cannot be read: {error.strerror}{cure and '; ' + cure}.") from None
    if isinstance(found, str):
        raise DataError(f"'{path}' does not hold a list of JSON objects ({found}){cure and '; ' + cure}.")
    if found is not None:
        for number, row in enumerate(found):
            if not isinstance(row, dict):
                what = f"row {number}: this is not a JSON object (it is {_WORDS[type(row)]})"
                raise DataError(f"'{path}', {what}{cure and '; ' + cure}.")
        return found
    try:
        return [row for _, row in json_lines(path, cure)]
    except DataError:
        if path.suffix != ".json":
            raise
        return [json_file(path, cure)]


def json_object(line: str | bytes, path: Path, number: int, cure: str = "", **fields: type) -> dict[str, Any]:
    """The object of one line, with `fields` of these types."""
    found = _object(line.strip(), fields)
    if isinstance(found, str):
        raise DataError(f"'{path}', line {number}: this is not {_wanted(fields)} ({found}){cure and '; ' + cure}.")
    return found


@contextmanager
def json_shape(path: Path, what: str, cure: str, **fields: type) -> Iterator[dict[str, Any]]:
    """The object of a file. A value in it that is missing or of another type where the block reads it is a DataError
    too. `what`: the file should say, such as "the round in which each problem was solved"."""
    found = json_file(path, cure, **fields)
    try:
        yield found
    except CountdownSelfPlayError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise DataError(f"'{path}' does not say {what} ({why}); {cure}.") from None


def _wanted(fields: Mapping[str, type]) -> str:
    return f"a JSON object with {' and '.join(f'`{name}`' for name in fields)}" if fields else "a JSON object"


def _object(text: str | bytes, fields: Mapping[str, type]) -> dict[str, Any] | str:
    """The object that a text is, or why it is not."""
    found = _parsed(text)
    if isinstance(found, str):
        return found
    return lacking(found, fields) or found if isinstance(found, dict) else f"it is {_WORDS[type(found)]}"


def _parsed(text: str | bytes) -> Any:
    """The value that a JSON text is; why it is none, or is a text, in words."""
    try:
        found = json.loads(text)
    except RecursionError:
        return "it is nested too deeply"
    except UnicodeDecodeError:
        return "it is not UTF-8 text"
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, " if error.lineno > 1 else ""
        return f"{error.msg}, {where}column {error.colno}" if text.strip() else "it is empty"
    except ValueError:
        return "a number has too many digits"
    return "it is a text" if isinstance(found, str) else found


def lacking(found: Mapping[str, Any], fields: Mapping[str, type]) -> str | None:
    """What an object has not, or has of another type, in words; None if it has `fields`."""
    for name, kind in fields.items():
        if name not in found:
            return f"there is no `{name}`"
        if not isinstance(found[name], kind) or isinstance(found[name], bool) is not (kind is bool):
            return f"`{name}` is {found[name]!r:.40}, not {_WORDS[kind]}"
    return None


def parquet_rows(path: Path, columns: Sequence[str] | None = None, cure: str = "") -> list[dict[str, Any]]:
    """The rows, or some of their columns. `cure`: what to do about a file that cannot be read."""
    import pyarrow.parquet

    try:
        return list(pyarrow.parquet.read_table(path, columns=columns and list(columns)).to_pylist())
    except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
        first = (str(error).splitlines() or [type(error).__name__])[0].rpartition(f"'{path}': ")[2]
        why = first.partition(". ")[0][:80]
        raise DataError(f"'{path}' cannot be read as Parquet ({why}){cure and '; ' + cure}.") from None
