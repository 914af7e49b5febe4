"""Reading Parquet: the rows of a file, and a DataError that names it where it is something else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import DataError


def parquet_rows(path: Path, columns: Sequence[str] | None = None, cure: str = "") -> list[dict[str, Any]]:
    """The rows, or some of their columns. `cure`: what to do about a file that cannot be read."""
    import pyarrow.parquet

    try:
        return list(pyarrow.parquet.read_table(path, columns=columns and list(columns)).to_pylist())
    except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
        first = (str(error).splitlines() or [type(error).__name__])[0].rpartition(f"'{path}': ")[2]
        why = first.partition(". ")[0][:80]
        raise DataError(f"'{path}' cannot be read as Parquet ({why}){cure and '; ' + cure}.") from None
