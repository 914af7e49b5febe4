"""From what was played to what is trained on: filter, take out repetitions, accumulate, balance."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..random_state import seed_from
from ..warm_starts.filters import is_loop
from .settings import RoleTraining

Row = dict[str, Any]

COLUMNS = ("role", "turn", "prompt", "completion", "reward", "label", "problem", "iteration", "chunk", "weights")
"""Of a data set: whose sample, of which turn, what was asked (JSON) and said, its reward and label, the problem's key,
and where it comes from: iteration, chunk and the weights that wrote it."""
PAIR_COLUMNS = (*COLUMNS, "before", "rejected")
"""Of a data set of pairs besides: the worse text, and what stands before both (the right steps; else nothing)."""


def chosen(rows: Iterable[Row], role: str, training: RoleTraining) -> list[Row]:
    """The role's samples that pass its threshold and labels, without loops and without repeating (prompt, text)."""
    found: dict[tuple[str, str], Row] = {}
    for row in rows:
        passes = row["role"] == role and training.keeps(row["reward"], row["label"])
        if passes and row["completion"].strip() and not is_loop(row["completion"]):
            found.setdefault((row["prompt"], row["completion"]), row)
    return list(found.values())


def balanced(rows: Sequence[Row], training: RoleTraining, *key: object) -> list[Row]:
    """At most `balance` rows of each label, and of none more than of the rarest that there is; drawn by lot from
    `key`, in their old order."""
    if training.balance is None:
        return list(rows)
    counts = Counter(row["label"] for row in rows)
    room = min([training.balance, *counts.values()])
    places: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        places.setdefault(row["label"], []).append(i)
    kept: list[int] = []
    for label, own in sorted(places.items()):
        kept += random.Random(seed_from(*key, label)).sample(own, min(room, len(own)))
    return [rows[i] for i in sorted(kept)]


def write(path: Path, rows: Sequence[Row]) -> None:
    """A parquet file, whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"turn": pa.int64(), "reward": pa.float64(), "iteration": pa.int64(), "chunk": pa.int64()}
    columns = PAIR_COLUMNS if rows and "rejected" in rows[0] else COLUMNS
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in columns])
    new = path.with_name(f".{path.name}.new")
    pq.write_table(pa.Table.from_pylist([{name: row[name] for name in columns} for row in rows], schema), new)
    new.replace(path)


def read(path: Path) -> list[Row]:
    """The rows of a file that `write` wrote; DataError if it is not there."""
    import pyarrow.parquet as pq

    if not path.is_file():
        raise DataError(
            f"'{path}' is not there, and later phases of the run were made of it; put it back, or remove the folders "
            "of its iteration and all later ones to play them again."
        )
    return list(pq.read_table(path).to_pylist())


def prompt_of(row: Row) -> Any:
    """The prompt as it was asked: a text or chat messages."""
    return json.loads(row["prompt"])
