"""Selection of training rows from played samples: pool repetitions, filter, balance; pair them for DPO; read another
run's samples for imitation."""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from ...data.jsonl import parquet_rows
from ...errors import DataError
from ...random_state import seed_from
from ..filters import ScoredSample, make_preference_pairs
from .settings import RoleTraining

Row = dict[str, Any]

COLUMNS = (
    "role", "turn", "prompt", "completion", "shown", "reward", "label", "problem", "iteration", "chunk", "weights",
)  # fmt: skip
"""Columns of a data set: role and turn of a sample, its prompt (JSON) and text, the part of the text that was shown if
not all, its reward and label, the problem's key, and its origin: iteration, chunk and the weights that sampled it."""
PUT_BACK = (
    "put back the file that the run wrote, or remove the folders of its iteration and all later ones and their lines "
    "of iterations.jsonl, to play them again"
)
PAIR_COLUMNS = (*COLUMNS, "before", "rejected")
"""Columns of a data set of pairs: COLUMNS, the steps that both texts share, if any, and the worse text."""


def pooled(rows: Iterable[Row], role: str) -> Iterator[Row]:
    """Yield the role's distinct samples with the mean reward of their copies, which have the same prompt, label and
    text (or shown part). A critique's prompt holds question and solution, so that a copy is another sample of one
    (question, solution, critique), and the mean is the share of all its revisions (appendix B). A problem is played in
    one chunk; only one chunk is held in memory."""
    for _, chunk in groupby(rows, key=lambda row: (row["iteration"], row["chunk"])):
        copies: dict[tuple[str, ...], list[Row]] = {}
        for row in chunk:
            if row["role"] == role and row["completion"].strip():
                copies.setdefault((row["prompt"], row["label"], row.get("shown") or row["completion"]), []).append(row)
        for same in copies.values():
            yield {**same[0], "reward": sum(row["reward"] for row in same) / len(same)}


def chosen(rows: Iterable[Row], role: str, training: RoleTraining) -> list[Row]:
    """Return the role's distinct samples that pass its threshold and labels, without loops."""
    return [
        row
        for row in pooled(rows, role)
        if training.keeps(row["reward"], row["label"]) and not training.loops(row["completion"])
    ]


def unseen(rows: Iterable[Row], before: Iterable[Row]) -> list[Row]:
    known = {_identity(row) for row in before}
    return [row for row in rows if _identity(row) not in known]


def _identity(row: Row) -> tuple[Any, ...]:
    return row["prompt"], row.get("before"), row.get("shown") or row["completion"], row.get("rejected")


def balanced(rows: Sequence[Row], training: RoleTraining, *key: object) -> list[Row]:
    """Return at most `balance` rows of each label, and of none more than of the rarest (a label without rows has no
    effect); sampled deterministically from `key`, in their old order."""
    if training.balance is None:
        return list(rows)
    counts = Counter(row["label"] for row in rows)
    room = min([training.balance, *counts.values()])
    places: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        places.setdefault(row["label"], []).append(i)
    kept: list[int] = []
    for label, members in sorted(places.items()):
        kept += random.Random(seed_from(*key, label)).sample(members, min(room, len(members)))
    return [rows[i] for i in sorted(kept)]


def preferred(rows: Iterable[Row], role: str, training: RoleTraining, *key: object) -> list[Row]:
    """Return one pair for each prompt with a success and a failure, drawn at random from `key` (appendix B: one of
    each per question, solution and critique, which a prompt holds): the success's row with the failure's text as
    `rejected`. Samples are those of `pooled`, so that a critique is a success or a failure by all of its copies; a
    text that was both, by another label, is neither."""
    sides: dict[tuple[str, str], set[bool]] = defaultdict(set)
    pair_of: dict[tuple[str, str], Row] = {}
    for row in pooled(rows, role):
        kept, failed = (one(row["reward"], row["label"]) for one in (training.keeps, training.fails))
        if failed or (kept and not training.loops(row["completion"])):
            place = row["prompt"], row["completion"]
            sides[place].add(kept)
            pair_of.setdefault(place, row)
    clear = [place for place in pair_of if len(sides[place]) == 1]
    samples = [ScoredSample(prompt, prompt, text, float(min(sides[prompt, text]))) for prompt, text in clear]
    pairs = make_preference_pairs(samples, pairs_per_group=1, seed=seed_from(*key))
    return [{**pair_of[pair.group, pair.chosen], "before": "", "rejected": pair.rejected} for pair in pairs]


def stepwise(
    rows: Iterable[Row], training: RoleTraining, domain: Any, problems: Mapping[str, Any], *key: object
) -> list[Row]:
    """Return one pair for each question with a wrong answer whose right steps a right answer shares (Lai et al. 2024):
    after these steps, the right answer's next step is preferred to the first wrong one, which the domain finds. A row
    is that of the right answer, with `before` (the shared steps), `completion` and `rejected` (one step each)."""
    answers: dict[str, dict[bool, list[Row]]] = defaultdict(lambda: {True: [], False: []})
    for row in rows:
        kept, failed = (one(row["reward"], row["label"]) for one in (training.keeps, training.fails))
        if row["role"] == "prover" and (kept or failed):
            answers[row["prompt"]][kept].append(row)
    stepped = []
    for prompt, sides in answers.items():
        lot = random.Random(seed_from(*key, prompt))
        pairs = _step_pairs(domain, problems, lot.sample(sides[False], len(sides[False])), sides[True])
        if pairs:
            before, step, wrong, row = lot.choice(pairs)
            stepped.append({**row, "before": before, "completion": step, "rejected": wrong})
    return stepped


def _step_pairs(
    domain: Any, problems: Mapping[str, Any], wrong: list[Row], right: list[Row]
) -> list[tuple[str, str, str, Row]]:
    """Return (steps before, right step, wrong step, the right answer's row) of the first wrong answer
    with such pairs."""
    for row in wrong:
        cut = domain.critique.cut_at_mistake(problems[row["problem"]], row["completion"])
        if cut is not None:
            before, step = cut
            next_steps = [(domain.critique.next_step(other["completion"], before), other) for other in right]
            pairs = [(before, good, step, other) for good, other in next_steps if good not in (None, step)]
            if pairs:
                return pairs
    return []


def to_imitate(folder: Path, roles: Iterable[str], most: int, seed: int) -> list[Row]:
    """Return the training set of a run's first iteration, at most `most` rows drawn at random from `seed`."""
    first, cure = folder / "iteration-1", "name the folder of a run that has trained all of these roles once"
    rows = [row for role in roles for row in read(first / f"{role}.parquet", cure=cure)]
    if not rows:
        raise DataError(f"The first iteration of '{folder}' chose no sample, so there is nothing to imitate.")
    if "rejected" in rows[0]:
        raise DataError(f"'{folder}' holds pairs, which cannot be imitated; name a run with algorithm=rest.")
    if len(rows) <= most:
        return rows
    kept = random.Random(seed_from(seed, "imitate")).sample(range(len(rows)), most)
    return [rows[i] for i in sorted(kept)]


def write(path: Path, rows: Sequence[Row]) -> None:
    """Write a parquet file atomically."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"turn": pa.int64(), "reward": pa.float64(), "iteration": pa.int64(), "chunk": pa.int64()}
    columns = PAIR_COLUMNS if rows and "rejected" in rows[0] else COLUMNS
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in columns])
    new = path.with_name(f".{path.name}.new")
    whole = ({"shown": None, **row} for row in rows)  # a sample that is shown as it is needs no entry
    pq.write_table(pa.Table.from_pylist([{name: row[name] for name in columns} for row in whole], schema), new)
    new.replace(path)


def read(path: Path, columns: Sequence[str] | None = None, cure: str = PUT_BACK) -> list[Row]:
    """Return the rows of a file that `write` wrote, or some of their columns. Raises DataError, which ends with
    `cure`, if it is absent or damaged."""
    if not path.is_file():
        raise DataError(f"'{path}' is not there; {cure}.")
    return parquet_rows(path, columns, cure)


def prompt_of(row: Row) -> Any:
    """Return the original prompt: a text or chat messages."""
    return json.loads(row["prompt"])
