"""Sharing an evaluation out over the processes of a training run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..random_state import seed_from

T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """rank: this process's number of `world`. gather: concatenates the processes' lists in rank order; all of them
    call it, equally often and in the same order. in_step: they must also take the same steps of generation, as where
    no process holds whole weights."""

    rank: int = 0
    world: int = 1
    gather: Callable[[list[Any]], list[Any]] = list
    in_step: bool = False

    def share(self, items: Sequence[T]) -> list[T]:
        """This process's items, every `world`-th. All processes get equally many: the last ones repeat their first
        item where the number does not divide, for a process that makes fewer batches than the others would leave them
        waiting."""
        mine = list(items[self.rank :: self.world])
        each = -(-len(items) // self.world)
        return mine + [items[0]] * (each - len(mine)) if items else []

    def collect(self, mine: list[T], total: int) -> list[T]:
        """What all processes made of their `share`s, in the order of the `total` items, on every process."""
        found = self.gather(mine)
        each = -(-total // self.world)
        return [found[(i % self.world) * each + i // self.world] for i in range(total)]

    def seed(self, seed: int) -> int:
        """A seed of this process's own, so that no two of them draw the same numbers; with one process `seed`."""
        return seed if self.world == 1 else seed_from("process", seed, self.rank, self.world)


ALONE = Processes()


def processes_of(accelerator: Any, in_step: bool = False) -> Processes:
    """The processes of an Accelerate run."""
    from accelerate.utils import gather_object

    if accelerator.num_processes == 1:
        return ALONE
    return Processes(accelerator.process_index, accelerator.num_processes, gather_object, in_step)
