"""Tools for tests of a game, a proposer, a guide or a domain without a model: a round with scripted texts, on one
process or several. Domain, verdicts and objectives are real."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Barrier
from typing import Any, TypeVar

import torch

from ..contract.domain import Row, in_moves
from ..contract.episodes import play_out
from ..contract.round import Rollout, Turn
from ..countdown import CountdownDomain
from ..distributed.processes import Processes
from ..objectives import make_objective
from ..random_state import seed_from
from ..training.round import credit

__all__ = ["ScriptedRound", "in_ranks"]

T = TypeVar("T")
Script = Callable[[str, Row, int], str]


@dataclass
class ScriptedRound:
    """Round (contract/round.py) for tests. Unlike the trainer's, its rollouts have no `tensors`, the reward of a
    verified sample is the verifier's score, and `credit` ignores `imitate_B`."""

    write: Script
    """Function (player, row, index of the sample in its row) -> text; in moves the text is the next move."""
    sizes: dict[str, tuple[int, int]]
    """Map of each player to (problems of a round for its role over all processes, samples per row)."""
    domain: Any = field(default_factory=CountdownDomain.tiny)
    index: int = 0
    objectives: dict[str, Any] = field(default_factory=dict)
    """Objectives by player; default rloo."""
    held_out: frozenset[str] = frozenset()
    rank: int = 0
    world: int = 1
    limits: dict[str, int] = field(default_factory=dict)
    """Number of correct answers after which a problem is no longer trained on, by player."""
    gather: Callable[[list[Any]], list[Any]] = list
    """Function from this process's list to the joined lists of all; `in_ranks` makes one for several processes."""
    rows: dict[str, list[Row]] = field(default_factory=dict)
    """Rows of this round by player."""
    problems: list[Any] = field(default_factory=list)
    moved: Callable[[Rollout], torch.Tensor | None] | None = None
    """Function that returns `progress` of a rollout; None: no progress, as before the first optimizer step."""

    def dataset(self) -> list[Any]:
        return list(self.problems)

    def players(self, kind: str) -> list[str]:
        return [player for player in self.sizes if player.split("/")[0] == kind]

    def slots(self, kind: str) -> int:
        return next((self.sizes[player][0] for player in self.players(kind)), 0)

    def group(self, role: str) -> int:
        return self.sizes[role][1]

    def sample(
        self, role: str, rows: Iterable[Row], n: int | None = None, problems: Sequence[Any] | None = None
    ) -> Rollout:
        rows, n = list(rows), self.group(role) if n is None else n
        self.rows[role] = self.rows.get(role, []) + rows
        if problems is not None and in_moves(self.domain):
            return self._play_out(role, rows, list(problems), n)
        texts = [self.write(role, row, i) for row in rows for i in range(n)]
        if problems is None:
            return Rollout(role, rows, texts, n, rewards_B=torch.zeros(len(texts)))
        verdicts = self.domain.verify(texts, [problem for problem in problems for _ in range(n)])
        return Rollout(role, rows, texts, n, verdicts, torch.tensor([float(v.score) for v in verdicts]))

    def progress(self, rollout: Rollout, weights_B: torch.Tensor | None = None) -> torch.Tensor | None:
        moved_B = None if self.moved is None else self.moved(rollout)
        return moved_B if moved_B is None or weights_B is None else moved_B * weights_B

    def _play_out(self, role: str, rows: list[Row], problems: list[Any], n: int) -> Rollout:
        """Play episodes, whose moves `write` returns. The round's `rows` contains the rows of first moves only."""

        def sample(move: int, batch: list[Row], each: int) -> Rollout:
            return Rollout(role, batch, [self.write(role, row, i) for row in batch for i in range(each)], each)

        played = play_out(self.domain, role, rows, problems, n, sample)
        played.rewards_B = torch.tensor([float(v.score) for v in played.verdicts or []])
        return played

    def credit(
        self,
        rollout: Rollout,
        rewards_B: Any = None,
        correct_B: Any = None,
        kept_B: Any = None,
        group: int | None = None,
        imitate_B: Any = None,
    ) -> Turn:
        objective = self.objectives.get(rollout.role) or make_objective("rloo")
        return credit(objective, self.gather, rollout, rewards_B, correct_B, kept_B, group)

    def solved_limit(self, role: str) -> int | None:
        return self.limits.get(role)

    def share(self, items: Sequence[T]) -> list[T]:
        return Processes(self.rank, self.world).share(items)

    def seed(self, *key: object) -> int:
        return seed_from(0, *key, self.index)

    def next(self, **changes: Any) -> ScriptedRound:
        """Return the next round, with `changes` of its fields."""
        return replace(self, **{"index": self.index + 1, "rows": {}, **changes})


def in_ranks(world: int, play: Callable[[int, Callable[[list[Any]], list[Any]]], T]) -> list[T]:
    """Return the results of `play(rank, gather)` on each of `world` threads, which meet in `gather` as processes do.
    Raises BrokenBarrierError if one does not arrive within 300 s."""
    barrier = Barrier(world, timeout=300)
    parts: list[list[Any]] = [[] for _ in range(world)]

    def gather_of(rank: int) -> Callable[[list[Any]], list[Any]]:
        def gather(items: list[Any]) -> list[Any]:
            parts[rank] = list(items)
            barrier.wait()
            gathered = [item for part in parts for item in part]
            barrier.wait()  # all have read before one writes
            return gathered

        return gather

    def played(rank: int) -> T:
        try:
            return play(rank, gather_of(rank))
        except BaseException:
            barrier.abort()  # no thread waits for a failed one
            raise

    with ThreadPoolExecutor(world) as pool:
        return list(pool.map(played, range(world)))
