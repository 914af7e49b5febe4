"""The order of the anchors: by seed and epoch alone, so that a resumed run goes on where the straight run is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from datasets import Dataset
from torch.utils.data import DataLoader, Sampler

from ..random_state import seed_from


class RoundBatches(Sampler[list[int]]):
    """The row indices of each round, once for each process: all of them read the anchors of the whole round. The order
    of an epoch depends on (seed, epoch) alone: TRL seeds its generator once per process, and a resumed run would play
    the first epoch's order again.

    `rounds_done`: asked when an epoch starts. accelerate 1.15 has a `set_epoch`, but it does not reach the sampler
    where several processes resume inside an epoch (its loader then wraps the batches twice).
    """

    drop_last = True  # accelerate shares the batches out to processes, and asks for this and for batch_size

    def __init__(
        self, rows: int, problems: int, processes: int, rounds_done: Callable[[], int], seed: int | None = None
    ) -> None:
        """`rows` in all, `problems` of a round. seed None: in the order of the data set."""
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
    """Rows that no loader looks into for tensors: accelerate walks through every entry of every other list."""

    def to(self, *args: Any, **kwargs: Any) -> RowBatch:
        return self

    def pin_memory(self, *args: Any) -> RowBatch:
        return self

    def __contains__(self, item: object) -> bool:
        """The Trainer asks each step for a column of labels, which rows are not: no row is compared with its name."""
        return not isinstance(item, str) and super().__contains__(item)


def rounds_loader(args: Any, rows: Dataset, rounds_done: Callable[[], int], shuffle: bool) -> DataLoader[Any]:
    """The data loader of a run: a batch is the anchors of a round. `rounds_done`: see RoundBatches."""
    seed = int(args.seed) if shuffle else None
    batches = RoundBatches(len(rows), args.problems_per_round, args.world_size, rounds_done, seed)
    return DataLoader(rows, batch_sampler=batches, collate_fn=RowBatch)  # type: ignore[arg-type]


def planned_rounds(args: Any, rows: Dataset) -> int:
    """The round at which the run ends, as the Trainer computes it from `max_steps` or `num_train_epochs`."""
    if args.max_steps > 0:
        return int(args.max_steps)
    return math.ceil(args.num_train_epochs * (len(rows) // args.problems_per_round))
