"""Compute and rate of a run, from its metrics.jsonl or from a table."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import DataError

GENERATIONS = "generations"
"""Texts sampled so far, of all trained roles: steps times the texts of a round, where a run does not log them."""


def load_series(path: str, compute: str | None, rate: str | None) -> tuple[list[float], list[float], str, str]:
    """The points of a run folder, a .csv or a .jsonl file, by rising compute, and the names of the two columns.

    Rows without both are passed over. Without names: `compute` is the column of that name, else the generations;
    `rate` is the column of that name, else a metric that ends in cumulative_solve_rate, else eval_pass@1. DataError if
    there is no file, no such column, or a value that is no finite number.
    """
    place = Path(path)
    run = place if place.is_dir() else None
    if run is not None:
        place = run / "metrics.jsonl"
    if not place.is_file():
        raise DataError(f"There is no file '{place}'; pass a run folder, or a .csv or .jsonl file.")
    try:
        rows = list(_csv_rows(place) if place.suffix == ".csv" else _json_rows(place))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"'{place}' is not a table in UTF-8 text ({error}).") from None
    columns = list(dict.fromkeys(name for row in rows for name in row))
    rate = rate or _default_rate(columns, place)
    if compute is None:
        compute = next((name for name in ("compute", GENERATIONS) if name in columns), GENERATIONS)
    if compute == GENERATIONS and compute not in columns and run is not None:
        each = texts_per_round(run)
        rows = [{**row, compute: row["step"] * each} if "step" in row else row for row in rows]
        columns.append(compute)
    for name in (compute, rate):
        if name not in columns:
            raise DataError(f"'{place}' has no column '{name}'; it has {', '.join(columns[:12])}.")
    points = []
    for number, row in enumerate(rows, start=1):
        if row.get(compute) in (None, "") or row.get(rate) in (None, ""):
            continue
        points.append((_number(row[compute], place, number, compute), _number(row[rate], place, number, rate)))
    if not points:
        raise DataError(f"'{place}' has no row with both '{compute}' and '{rate}'.")
    points.sort(key=lambda point: point[0])
    return [x for x, _ in points], [y for _, y in points], compute, rate


def texts_per_round(run: Path) -> int:
    """Texts that all trained roles sample in a round: micro-batches x their size x processes."""
    try:
        found = json.loads((run / "run.json").read_text(encoding="utf-8"))
        config = found["config"]
        batches = sum(int(value) for name, value in config.items() if name.endswith("_micro_batches") and value)
        each = batches * int(config["per_device_train_batch_size"])
        each *= int(found.get("environment", {}).get("processes", 1))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"'{run / 'run.json'}' does not say how many texts a round samples ({type(error).__name__}: {error}); "
            "name a column, as in --compute step."
        ) from None
    if each < 1:
        raise DataError(f"'{run / 'run.json'}' has no micro-batches; name a column, as in --compute step.")
    return each


def _default_rate(columns: list[str], place: Path) -> str:
    if "rate" in columns:
        return "rate"
    for ending in ("cumulative_solve_rate", "eval_pass@1"):
        found = [name for name in columns if name.endswith(ending)]
        if found:
            return found[0]
    raise DataError(f"'{place}' has no column 'rate', cumulative_solve_rate or eval_pass@1; name one with --rate.")


def _csv_rows(place: Path) -> Iterator[dict[str, Any]]:
    with place.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _json_rows(place: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(place.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, Mapping):
            raise DataError(f"'{place}', line {number}: this is no JSON object.")
        yield dict(row)


def _number(value: Any, place: Path, row: int, column: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"'{place}', row {row}, column '{column}': must be a finite number, got {value!r}.")
    return number
