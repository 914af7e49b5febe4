"""Processes of a run: communication and distribution of work."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from accelerate.utils import broadcast_object_list, gather_object, reduce, wait_for_everyone
from transformers.utils import logging as transformers_logging

from ..random_state import seed_from
from .launch import pause_at_exit

T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """Rank, world size and device of a process of a run. in_step: whether all processes must take the same generation
    steps, because none holds whole weights. All processes call `gather`, `total`, `wait` and `together`, equally often
    and in the same order."""

    rank: int = 0
    world: int = 1
    device: torch.device = torch.device("cpu")  # noqa: RUF009 -- immutable
    in_step: bool = False

    def __str__(self) -> str:
        return f"{self.world} process{'es' if self.world > 1 else ''} on {self.device.type}"

    @property
    def main(self) -> bool:
        """Whether this is the process that writes files and contacts servers."""
        return self.rank == 0

    def gather(self, items: list[Any]) -> list[Any]:
        """Return the lists of all processes, concatenated in rank order."""
        return gather_object(items) if self.world > 1 else list(items)

    def total(self, values: list[float]) -> list[float]:
        """Sum each value over the processes, in float64."""
        if self.world == 1:
            return values
        return reduce(torch.tensor(values, dtype=torch.float64, device=self.device), "sum").tolist()

    def wait(self) -> None:
        """Wait for all processes."""
        if self.world > 1:
            wait_for_everyone()

    def together(self, action: Callable[[], T]) -> T:
        """Run `action` on the main process; return its result, or raise its error, on all processes."""
        outcome: list[Any] = [None, None]
        if self.main:
            try:
                outcome[0] = action()
            except Exception as error:
                outcome[1] = error
        if self.world > 1:
            broadcast_object_list(outcome)
        if outcome[1] is not None:
            raise outcome[1]
        return outcome[0]

    def share(self, items: Sequence[T]) -> list[T]:
        """Return this process's contiguous part of `items`; lengths of parts differ by at most one."""
        return list(items[len(items) * self.rank // self.world : len(items) * (self.rank + 1) // self.world])

    def deal(self, items: Sequence[T]) -> list[T]:
        """Return every `world`-th item for this process. All processes get the same number, so that none waits for
        another: the last processes get `items[0]` in addition if necessary."""
        mine = list(items[self.rank :: self.world])
        each = -(-len(items) // self.world)
        return mine + [items[0]] * (each - len(mine)) if items else []

    def collect(self, mine: list[T], total: int) -> list[T]:
        """Return the results for the `total` items that `deal` distributed, in their order, on every process."""
        parts = self.gather(mine)
        each = -(-total // self.world)
        return [parts[(i % self.world) * each + i // self.world] for i in range(total)]

    def seed(self, seed: int) -> int:
        """Return a seed of this process, so that no two draw the same numbers; with one process, `seed`."""
        return seed if self.world == 1 else seed_from("process", seed, self.rank, self.world)


ALONE = Processes()


def processes_of(accelerator: Any, in_step: bool = False) -> Processes:
    """Return the `Processes` of this process in an Accelerate run. `in_step`: as in `Processes`."""
    world = accelerator.num_processes
    if world > 1:
        pause_at_exit()
    return Processes(accelerator.process_index, world, accelerator.device, in_step and world > 1)


def advise_threads() -> None:
    """Warn once if torch was loaded before this package could set its threads' waiting policy."""
    if torch.get_num_threads() > 1 and not {"OMP_WAIT_POLICY", "OMP_NUM_THREADS"} & set(os.environ):
        transformers_logging.get_logger(__name__).warning_once(
            "torch was loaded before countdown_selfplay: on busy cores its threads wait for each other, and a step "
            "can take ten times as long. Import countdown_selfplay first, or set OMP_WAIT_POLICY=PASSIVE or "
            "OMP_NUM_THREADS=1."
        )
