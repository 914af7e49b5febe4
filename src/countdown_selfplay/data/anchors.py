"""Anchor problems: rows from a data set or the domain's generator, and their order, which depends on seed and epoch
alone, so that a resumed run equals an uninterrupted one."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from datasets import Dataset, IterableDataset
from torch.utils.data import DataLoader, Sampler

from ..contract.domain import Domain
from ..errors import ConfigError, DataError
from ..random_state import seed_from

logger = logging.getLogger(__name__)

GENERATED_ANCHORS = 2048  # many epochs of a tiny run; generated in seconds
# Columns that are dropped, in addition to the problem's: names that TRL passes or reads.
NO_EXTRA = frozenset(("prompt", "image", "images", "prompts", "verdict", "completion", "completions"))
NO_EXTRA |= {"completion_ids", "trainer_state", "log_extra", "log_metric"}


def run_anchors(
    args: Any, domain: Domain[Any], train: Dataset | None, held_out: Dataset | None, as_targets: bool
) -> tuple[Dataset, Dataset | None, list[str], frozenset[str]]:
    """Return the rows from which the data loader draws anchors, the rows for evaluation or None, the keys of the data
    set's problems in its order, and those of evaluation. Raises DataError for an invalid row, and for fewer rows than
    a round draws. `as_targets`: whether the proposer chooses from the whole data set; equal problems then count once,
    and too few rows are repeated."""
    if isinstance(held_out, Mapping):
        raise ConfigError("`eval_dataset` is a dict of data sets; pass one, and hand the others to evaluate().")
    eval_rows = None if held_out is None else anchor_dataset(held_out, domain, args.seed)
    keys = frozenset[str]() if eval_rows is None else frozenset(problem_keys(eval_rows, domain))
    rows, needed = anchor_dataset(train, domain, args.seed, keys), args.problems_per_round
    listed = problem_keys(rows, domain)
    if as_targets:
        warn_twice(listed)
        if 0 < len(rows) < needed:  # repeated until they fill a round of the data loader
            rows = rows.select(list(range(len(rows))) * -(-needed // len(rows)))
    if len(rows) < needed:
        raise DataError(f"train_dataset has {len(rows)} problems; pass {needed} or more, or lower problems_per_round.")
    if overlap := len(set(listed) & keys):
        logger.warning(
            "%d problems of train_dataset are also in eval_dataset: its pass@k will be contaminated; remove them.",
            overlap,
        )
    return rows, eval_rows, listed, keys


def anchor_dataset(
    dataset: Dataset | None, domain: Domain[Any], seed: int, held_out: frozenset[str] | None = None
) -> Dataset:
    """Return rows of the domain's `prove_row`, rendered from the problem (a prompt column is ignored), with the other
    columns of `dataset`. Raises DataError, which names row and column, for a row without a problem.

    Args:
        dataset: Rows. None: problems from the domain's generator, deterministic given `seed`, not held out and
          not in `held_out`.
        held_out: Keys of the evaluation's problems. None: `dataset` is for evaluation, and ranges are not checked.
    """
    if dataset is None:
        if domain.random is None:
            raise DataError(f"{type(domain).__name__} does not generate problems; pass a train_dataset.")
        problems = domain.random(GENERATED_ANCHORS, seed, held_out or frozenset())
        return Dataset.from_list([domain.prove_row(problem) for problem in problems])
    if isinstance(dataset, IterableDataset):
        name = "eval_dataset" if held_out is None else "train_dataset"
        raise DataError(f"`{name}` is a stream (IterableDataset); pass Dataset.from_list(list(stream.take(10000))).")
    return Dataset.from_list(list(_rendered(dataset, domain, held_out is None)))


def _rendered(rows: Any, domain: Domain[Any], rendered: bool) -> Iterator[dict[str, Any]]:
    """Yield the rendered rows, and log the first one out of range unless `rendered` (data for evaluation). Such rows
    are still played: a data set may be harder than the proposals."""
    columns = domain.columns
    for index, row in enumerate(rows):
        problem = domain.problem(row, index)
        if not rendered and (beyond := domain.outside(problem)) is not None:
            rendered = True
            logger.warning(
                f"Row {index} of train_dataset ({domain.key(problem)}) is out of range: {beyond}. Such rows are "
                "played, and the conjecturer is held to the range; widen it if it is to follow them."
            )
        extra = {name: value for name, value in row.items() if name not in NO_EXTRA and name not in columns}
        yield extra | domain.prove_row(problem)


def problem_keys(rows: Dataset, domain: Domain[Any]) -> list[str]:
    """Return the keys of the problems in an anchor data set, in its order."""
    return [domain.key(domain.problem(row, index)) for index, row in enumerate(rows)]


def warn_twice(listed: list[str]) -> None:
    """Log how many rows repeat the key of an earlier target: they are merged, whatever the order of their numbers."""
    counts = Counter(listed)
    if twice := [key for key, count in counts.items() if count > 1]:
        shown = ", ".join(twice[:3]) + (", ..." if len(twice) > 3 else "")
        logger.warning(
            f"{counts.total() - len(counts)} of {counts.total()} rows of train_dataset repeat an earlier target and "
            f"are merged with it: {len(counts)} targets remain; repeated are {shown}."
        )


class RoundBatches(Sampler[list[int]]):
    """Sampler of each round's row indices, repeated once per process, because each process reads the whole round. The
    order of an epoch depends on (seed, epoch) alone: TRL seeds its generator once per process, and a resumed run would
    repeat the first epoch's order. `rounds_done`: returns the number of rounds so far, from which the epoch is
    computed; `set_epoch` of accelerate 1.15 does not reach the sampler if several processes resume inside an epoch."""

    drop_last = True  # accelerate shares the batches among processes, and reads this and batch_size

    def __init__(
        self, rows: int, problems: int, processes: int, rounds_done: Callable[[], int], seed: int | None = None
    ) -> None:
        """Set up the batches of `problems` rows. seed None: in the order of the data set."""
        self.rows, self.batch_size, self.processes = rows, problems, processes
        self.rounds_done, self.seed = rounds_done, seed

    def __len__(self) -> int:
        return self.rows // self.batch_size * self.processes

    def __iter__(self) -> Iterator[list[int]]:
        order = list(range(self.rows))
        if self.seed is not None:
            epoch = self.rounds_done() // (self.rows // self.batch_size)
            generator = torch.Generator().manual_seed(seed_from(self.seed, "anchors", epoch) if epoch else self.seed)
            order = torch.randperm(self.rows, generator=generator).tolist()
        for first in range(0, self.rows - self.batch_size + 1, self.batch_size):
            for _ in range(self.processes):
                yield order[first : first + self.batch_size]


class RowBatch(list[dict[str, Any]]):
    """List of rows in which accelerate does not search for tensors: it visits every entry of any other list."""

    def to(self, *args: Any, **kwargs: Any) -> RowBatch:
        return self

    def pin_memory(self, *args: Any) -> RowBatch:
        return self

    def __contains__(self, item: object) -> bool:
        """Return False for a text, such as the name of a label column, for which the Trainer searches the batch: a
        comparison with each row would be of no use."""
        return not isinstance(item, str) and super().__contains__(item)


def rounds_loader(args: Any, rows: Dataset, rounds_done: Callable[[], int], shuffle: bool) -> DataLoader[Any]:
    """Return the data loader of a run: a batch is the anchors of a round. `rounds_done`: see RoundBatches."""
    seed = int(args.seed) if shuffle else None
    batches = RoundBatches(len(rows), args.problems_per_round, args.world_size, rounds_done, seed)
    return DataLoader(rows, batch_sampler=batches, collate_fn=RowBatch)  # type: ignore[arg-type]


def planned_rounds(args: Any, rows: Dataset) -> int:
    """Return the number of rounds, as the Trainer computes it from `max_steps` or `num_train_epochs`."""
    if args.max_steps > 0:
        return int(args.max_steps)
    return math.ceil(args.num_train_epochs * (len(rows) // args.problems_per_round))
