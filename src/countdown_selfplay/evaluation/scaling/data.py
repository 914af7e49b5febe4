"""Compute and rate of a run, from its metrics.jsonl or from a table."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ...data.jsonl import json_lines, json_shape
from ...errors import DataError
from ...statistics.bootstrap import finite_array
from ...statistics.scaling import ScalingCurve
from ...statistics.solve_rate import FIRST_SOLVED

GENERATIONS = "generations"
"""Texts sampled so far, of all trained roles: steps times the texts of a round, where a run does not log them."""

COUNTED = "round/generations"
"""The same as a run counts them itself: across resumes, and without the slots that stayed empty."""

CUMULATIVE = "cumulative_solve_rate"


def curve_of(
    compute: Sequence[float] | np.ndarray, rate: Sequence[float] | np.ndarray, name: str = ""
) -> ScalingCurve:
    """The curve of two lists. A rate whose name ends in cumulative_solve_rate, or that never falls, is cumulative."""
    x, y = finite_array(compute, "compute"), finite_array(rate, "rate")
    return ScalingCurve(x, y, name.endswith(CUMULATIVE) or (len(y) > 1 and bool((np.diff(y) >= 0).all())))


def load_curve(path: str, compute: str | None, rate: str | None) -> tuple[ScalingCurve, str, str]:
    """The points of a run folder, a .csv or a .jsonl file, and the names of the two columns.

    Rows without both are passed over. Without names: `compute` is the column of that name, else the generations
    (those that a run counted, where it did);
    `rate` is the column of that name, else a metric that ends in cumulative_solve_rate, else eval_pass@1. A rate of
    that ending, and any rate that never falls, is taken for a cumulative one. The rates of a run folder that holds
    FIRST_SOLVED are counted from it. DataError if there is no file, no such column, or a value that is not a finite
    number.
    """
    place = Path(path)
    run = place if place.is_dir() else None
    if run is not None:
        place = run / "metrics.jsonl"
    if not place.is_file():
        raise DataError(f"There is no file '{place}'; pass a run folder, or a .csv or .jsonl file.")
    try:
        if place.suffix == ".csv":
            with place.open(encoding="utf-8", newline="") as file:
                rows: list[dict[str, Any]] = list(csv.DictReader(file))
        else:
            rows = [row for _, row in json_lines(place)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"'{place}' is not a table in UTF-8 text ({error}).") from None
    if any(None in row for row in rows):  # where the csv module puts the cells of a line beyond its header
        raise DataError(f"'{place}' is no table: a line has more cells than the first, which names the columns.")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    rate = rate or _default_rate(columns, place)
    if compute is None:
        compute = next((name for name in ("compute", GENERATIONS, COUNTED) if name in columns), GENERATIONS)
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
        x, y = _number(row[compute], place, number, compute), _number(row[rate], place, number, rate)
        points.append((x, y, row.get("step", -1)))
    if not points:
        raise DataError(f"'{place}' has no row with both '{compute}' and '{rate}'.")
    points.sort(key=lambda point: point[0])
    curve = curve_of([x for x, _, _ in points], [y for _, y, _ in points], rate)
    if run is None or not rate.endswith(CUMULATIVE) or not (run / FIRST_SOLVED).is_file():
        return curve, compute, rate
    problems, round_P, rounds = _first_solved(run / FIRST_SOLVED)
    each = _steps_per_round(run)
    # The record may end before a killed run.
    steps = np.array([float(step) for _, _, step in points if step <= rounds * each])
    first_P = np.searchsorted(steps, round_P * each)
    y_J = np.searchsorted(np.sort(first_P), np.arange(len(steps)), side="right") / len(problems)
    return ScalingCurve(curve.compute[: len(steps)], y_J, True, problems, first_P), compute, rate


def _first_solved(place: Path) -> tuple[tuple[str, ...], np.ndarray, int]:
    """The problems, sorted, the round in which each was first solved (inf: never), and the rounds of the record."""
    cure = "delete it to fit the rates of metrics.jsonl alone"
    with json_shape(place, "in which round each problem was solved", cure) as record:
        found = sorted(record["first_solved"].items())
        rounds = np.array([math.inf if round_ is None else float(round_) for _, round_ in found])
        return tuple(key for key, _ in found), rounds, int(record["rounds"])


def _steps_per_round(run: Path) -> int:
    """Optimizer steps of a round, in which metrics.jsonl counts; 1 where run.json does not say."""
    with suppress(DataError), json_shape(run / "run.json", "the steps of a round", "") as found:
        return int(found["config"].get("steps_per_round") or 1)
    return 1


def texts_per_round(run: Path) -> int:
    """Texts that all trained roles sample in a round: micro-batches x their size x processes."""
    with json_shape(
        run / "run.json", "how many texts a round samples", "name a column, as in --compute step"
    ) as found:
        config = found["config"]
        batches = sum(int(value) for name, value in config.items() if name.endswith("_micro_batches") and value)
        each = batches * int(config["per_device_train_batch_size"])
        each *= int(found.get("environment", {}).get("processes", 1))
    if each < 1:
        raise DataError(f"'{run / 'run.json'}' has no micro-batches; name a column, as in --compute step.")
    return each


def _default_rate(columns: list[str], place: Path) -> str:
    if "rate" in columns:
        return "rate"
    for ending in (CUMULATIVE, "eval_pass@1"):
        found = [name for name in columns if name.endswith(ending)]
        if found:
            return found[0]
    raise DataError(f"'{place}' has no column 'rate', cumulative_solve_rate or eval_pass@1; name one with --rate.")


def _number(value: Any, place: Path, row: int, column: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"'{place}', row {row}, column '{column}': must be a finite number, got {value!r}.")
    return number
