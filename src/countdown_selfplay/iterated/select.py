"""From what was played to what is trained on: pool repetitions, filter, balance."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from ..data.parquet import parquet_rows
from ..errors import DataError
from ..random_state import seed_from
from .settings import RoleTraining

Row = dict[str, Any]

COLUMNS = (
    "role", "turn", "prompt", "completion", "shown", "reward", "label", "problem", "iteration", "chunk", "weights",
)  # fmt: skip
"""Of a data set: whose sample, of which turn, what was asked (JSON) and said, what of it was shown on if not all, its
reward and label, the problem's key, and where it comes from: iteration, chunk and the weights that wrote it."""
PUT_BACK = (
    "put back the file that the run wrote, or remove the folders of its iteration and all later ones and their lines "
    "of iterations.jsonl, to play them again"
)
PAIR_COLUMNS = (*COLUMNS, "before", "rejected")
"""Of a data set of pairs besides: the worse text, and what stands before both (the right steps; else nothing)."""


def pooled(rows: Iterable[Row], role: str) -> Iterator[Row]:
    """The role's samples, each once, with the mean reward of all its copies: those with its prompt and with its text,
    or with what was shown of it. A critique's prompt holds question and solution, so that a copy is another sample of
    one (question, solution, critique), and the mean is the share of all revisions of it (appendix B). A problem is
    played in one chunk; more than that is not held."""
    for _, chunk in groupby(rows, key=lambda row: (row["iteration"], row["chunk"])):
        copies: dict[tuple[str, ...], list[Row]] = {}
        for row in chunk:
            if row["role"] == role and row["completion"].strip():
                copies.setdefault((row["prompt"], row["label"], row.get("shown") or row["completion"]), []).append(row)
        for same in copies.values():
            yield {**same[0], "reward": sum(row["reward"] for row in same) / len(same)}


def chosen(rows: Iterable[Row], role: str, training: RoleTraining) -> list[Row]:
    """The role's samples, each once, that pass its threshold and labels, without loops."""
    return [
        row
        for row in pooled(rows, role)
        if training.keeps(row["reward"], row["label"]) and not training.loops(row["completion"])
    ]


def unseen(rows: Iterable[Row], before: Iterable[Row]) -> list[Row]:
    """The rows whose texts are not in `before`."""
    known = {_identity(row) for row in before}
    return [row for row in rows if _identity(row) not in known]


def _identity(row: Row) -> tuple[Any, ...]:
    return row["prompt"], row.get("before"), row.get("shown") or row["completion"], row.get("rejected")


def balanced(rows: Sequence[Row], training: RoleTraining, *key: object) -> list[Row]:
    """At most `balance` rows of each label, and of none more than of the rarest that there is (a label without any
    rows cuts nothing); drawn by lot from `key`, in their old order."""
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
    whole = ({"shown": None, **row} for row in rows)  # of a sample that is shown as it is nothing need be said
    pq.write_table(pa.Table.from_pylist([{name: row[name] for name in columns} for row in whole], schema), new)
    new.replace(path)


def read(path: Path, columns: Sequence[str] | None = None, cure: str = PUT_BACK) -> list[Row]:
    """The rows of a file that `write` wrote, or some of their columns; DataError, which ends with `cure`, if it is not
    there or damaged."""
    if not path.is_file():
        raise DataError(f"'{path}' is not there; {cure}.")
    return parquet_rows(path, columns, cure)


def prompt_of(row: Row) -> Any:
    """The prompt as it was asked: a text or chat messages."""
    return json.loads(row["prompt"])
