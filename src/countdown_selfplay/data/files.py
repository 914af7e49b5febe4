"""Problem files and hub data sets as rows for training and evaluation."""

import glob
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from datasets import Dataset, load_dataset, load_dataset_builder, load_from_disk

from ..contract.domain import Domain, P
from ..domains import held_out_by_rung, held_out_of
from ..errors import DataError
from .jsonl import json_rows

logger = logging.getLogger(__name__)

_BUILDERS = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".csv": "csv"}

_ALTERNATIVE = (
    "`countdown-selfplay dataset problems.jsonl --count 10000` makes one of Countdown offline, and without the option "
    "Countdown's problems come from the same exact generator"
)


def load_problem_rows(source: str, split: str = "train") -> Dataset:
    """Load the rows of a local file (.jsonl, .json, .parquet, .csv), or the `split` of a folder or hub data set, with
    an optional configuration after a colon: `openai/gsm8k:main`. The domain's `problem` reads rows (Countdown: `nums`
    or `numbers`, and `target`, or both in `ground_truth`). Raises DataError if the source cannot be reached, and for a
    damaged or empty file."""
    path = Path(source)
    try:
        if path.is_file():
            return _local(path)
        if path.suffix.lower() in _BUILDERS:
            raise DataError(f"There is no problem file '{source}'; {_ALTERNATIVE}.")
        if any((path / name).is_file() for name in ("state.json", "dataset_dict.json")):
            return _saved(path, split)
        if path.is_dir():
            if glob.escape(source) != source:
                raise DataError(f"The folder '{source}' has `*`, `?` or `[` in its name; rename it.")
            _look_at(path, split)
        name, _, config = (source, "", "") if path.exists() else source.partition(":")
        return load_dataset(name, config or None, split=split)
    except DataError:
        raise
    except Exception as error:  # the hub client raises a dozen types: connection, repository, schema, offline mode
        raise DataError(
            f"Data set '{source}' (split '{split}') cannot be reached or read ({type(error).__name__}); one with "
            "configurations wants one of them, as in 'openai/gsm8k:main'; else "
            f"pass a local .jsonl or .parquet file, or {_ALTERNATIVE}."
        ) from error


def _saved(folder: Path, split: str) -> Dataset:
    dataset = load_from_disk(str(folder))
    if isinstance(dataset, Dataset):
        return dataset
    if split not in dataset:
        raise DataError(f"'{folder}' has no split '{split}'; its splits are {', '.join(map(str, dataset))}.")
    return dataset[split]


def _local(path: Path) -> Dataset:
    kind = _BUILDERS.get(path.suffix.lower())
    if kind is None:
        raise DataError(
            f"'{path}' is a file of a kind that is not read ({path.suffix or 'no ending'}); unpack it, or write it as "
            f"one of {', '.join(_BUILDERS)}."
        )
    try:
        if kind == "json":  # pyarrow's reader of it ends the process where a row is null
            rows = json_rows(path, _ALTERNATIVE)
            columns = dict.fromkeys(name for row in rows for name in row)
            rows = [{name: row.get(name) for name in columns} for row in rows]
            if not columns:
                raise DataError(f"'{path}' is empty: it holds no row; pass a file with rows.")
            return Dataset.from_list(rows, on_mixed_types="use_json")
        logging.getLogger("datasets").setLevel(logging.CRITICAL)  # its messages repeat the error
        return load_dataset(kind, data_files=glob.escape(str(path)), split="train")
    except DataError:
        raise
    except Exception as error:  # the readers' own types; StopIteration and ValueError for an empty file
        if "corresponds to no data" in str(error) or _is_empty(path):
            raise DataError(f"'{path}' is empty: it holds no row; pass a file with rows.") from error
        first = (str(error.__cause__ or error).strip().splitlines() or [type(error).__name__])[0]
        raise DataError(f"'{path}' cannot be read as {kind} ({first[:80]}); {_ALTERNATIVE}.") from error


def _look_at(folder: Path, split: str) -> None:
    """Raise DataError for a JSON file of the split with a row that is not an object: pyarrow aborts at a null row."""
    files = load_dataset_builder(str(folder)).config.data_files or {}
    for name in files.get(split, ()):
        if _BUILDERS.get(Path(name).suffix.lower()) == "json":
            json_rows(Path(name))


def _is_empty(path: Path) -> bool:
    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet

        with suppress(OSError, ValueError):  # pyarrow's errors are ValueErrors
            return pyarrow.parquet.read_metadata(path).num_rows == 0
    with path.open("rb") as lines:
        return not any(line.strip() for line in lines)


def checked_problems(domain: Domain[P], rows: Iterable[Mapping[str, Any]], source: str) -> list[P]:
    """Return the problems of a data set's rows, also those that the domain finds `unreadable`. Log a warning with the
    number of unreadable problems and the first of them."""
    problems = [domain.problem(row, i) for i, row in enumerate(rows)]
    unread = domain.unreadable(problems)
    if unread:
        first: Any = problems[unread[0]]
        logger.warning(
            f"{len(unread)} of {len(problems)} answers of '{source}' cannot be read as mathematics, the first that of "
            f"row {unread[0]} ({first.answer!r}); there only an answer in the same words is right."
        )
    return problems


def held_out_problems(script: Any, domain: Domain[P]) -> list[P]:
    """Return at most `eval_problems` problems of `eval_dataset_name` (0: all), or, without that name, of the domain's
    held-out split (0: none). With `eval_rungs`, return equally many of each of these rungs."""
    if script.eval_rungs is not None:
        rungs = list(dict.fromkeys(script.eval_rungs))
        return held_out_by_rung(domain, rungs, script.eval_problems // len(rungs), "`eval_rungs`")
    if script.eval_dataset_name is None:
        return held_out_of(domain, script.eval_problems)
    rows = load_problem_rows(script.eval_dataset_name, script.eval_dataset_split)
    if script.eval_problems:
        rows = rows.select(range(min(script.eval_problems, len(rows))))
    return checked_problems(domain, rows, script.eval_dataset_name)


def data_sets(script: Any, domain: Domain[P]) -> dict[str, Any]:
    """Return the arguments `train_dataset` and `eval_dataset` of a trainer, from DataArguments. train_dataset None:
    the domain generates problems; eval_dataset None: `eval_problems` is 0. Raises DataError for unreadable rows."""
    train = None
    if script.dataset_name is not None:
        train = load_problem_rows(script.dataset_name, script.dataset_train_split)
        checked_problems(domain, train, script.dataset_name)
    held_out = held_out_problems(script, domain) if script.eval_problems else []
    rows = [domain.prove_row(problem) for problem in held_out]
    return {"train_dataset": train, "eval_dataset": Dataset.from_list(rows) if rows else None}
