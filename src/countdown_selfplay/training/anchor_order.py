"""The order of the anchors: by seed and epoch alone, so that a resumed run goes on where the straight run is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from datasets import Dataset
from torch.utils.data import DataLoader, Sampler
from torch.utils.data import Dataset as TorchRows

from ..random_state import seed_from


class RoundBatches(Sampler[list[int]]):
    """The row indices of each micro-batch, in the order of TRL's RepeatSampler: a process's share of a round, as often
    as the round has micro-batches. Differs in that it is one list for all of them, where TRL counts out every index
    of every micro-batch, and in that an epoch's order depends on (seed, epoch) alone: TRL seeds its generator once per
    process, and a resumed run would play the first epoch's order again. Epoch 0 has TRL's order.

    `rounds_done`: asked when an epoch starts. accelerate 1.15 has a `set_epoch`, but it does not reach the sampler
    where several processes resume inside an epoch (its loader then wraps the batches twice).
    """

    drop_last = True  # accelerate shares the batches out to processes, and asks for this and for batch_size

    def __init__(
        self,
        rows: int,
        problems: int,
        group: int,
        copies: int,
        batch_size: int,
        rounds_done: Callable[[], int],
        seed: int | None = None,
    ) -> None:
        """`rows` in all, `problems` of a round, each `group` times; `copies`: micro-batches of a round, `batch_size`:
        rows of one on a process. seed None: in the order of the data set."""
        self.rows, self.problems, self.group, self.copies = rows, problems, group, copies
        self.batch_size, self.rounds_done, self.seed = batch_size, rounds_done, seed

    def __len__(self) -> int:
        return self.rows // self.problems * self.problems * self.group // self.batch_size * self.copies

    def __iter__(self) -> Iterator[list[int]]:
        order = list(range(self.rows))
        if self.seed is not None:
            epoch = self.rounds_done() // (self.rows // self.problems)
            generator = torch.Generator().manual_seed(seed_from(self.seed, "anchors", epoch) if epoch else self.seed)
            order = torch.randperm(self.rows, generator=generator).tolist()
        for first in range(0, self.rows - self.problems + 1, self.problems):
            drawn = [index for index in order[first : first + self.problems] for _ in range(self.group)]
            shares = [drawn[i : i + self.batch_size] for i in range(0, len(drawn), self.batch_size)]
            for _ in range(self.copies):
                yield from shares


class RowBatch(list[dict[str, Any]]):
    """Rows that no loader looks into for tensors: accelerate walks through every entry of every other list."""

    def to(self, *args: Any, **kwargs: Any) -> RowBatch:
        return self

    def pin_memory(self, *args: Any) -> RowBatch:
        return self

    def __contains__(self, item: object) -> bool:
        """The Trainer asks each step for a column of labels, which rows are not: no row is compared with its name."""
        return not isinstance(item, str) and super().__contains__(item)


class RoundRows(TorchRows[dict[str, Any]]):
    """A data set that is read once a round: the loader asks for all rows of the round, repeats included, at each of
    its micro-batches."""

    def __init__(self, rows: Dataset) -> None:
        self.rows = rows
        self._last: tuple[list[int], RowBatch] = ([], RowBatch())

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.rows[index]

    def __getitems__(self, indices: list[int]) -> RowBatch:
        if indices is not self._last[0] and indices != self._last[0]:
            distinct = list(dict.fromkeys(indices))
            read = dict(zip(distinct, self.rows.__getitems__(distinct), strict=True))
            self._last = indices, RowBatch(map(read.__getitem__, indices))
        return self._last[1]


def rounds_loader(args: Any, rows: Dataset, rounds_done: Callable[[], int], shuffle: bool) -> DataLoader[Any]:
    """The data loader of a run. `rounds_done`: see RoundBatches."""
    copies = int(args.steps_per_generation or 1)
    batches = RoundBatches(
        len(rows),
        args.loader_problems,
        args.loader_repeat,
        copies,
        args.per_device_train_batch_size * copies,
        rounds_done,
        int(args.seed) if shuffle else None,
    )
    return DataLoader(RoundRows(rows), batch_sampler=batches, collate_fn=_as_read)


def _as_read(rows: list[Any]) -> list[Any]:
    return rows


def planned_rounds(args: Any, rows: Dataset) -> int:
    """The round at which the run ends, as the Trainer computes it from `max_steps` or `num_train_epochs`."""
    if args.max_steps > 0:
        return int(args.max_steps)
    return math.ceil(args.num_train_epochs * (len(rows) // args.loader_problems))
