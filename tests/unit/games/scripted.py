"""A Round made of a function that writes texts: real domain, real verdicts, real objectives, no model."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Barrier
from typing import Any

import torch

from countdown_selfplay.contract.round import Rollout
from countdown_selfplay.countdown import CountdownDomain
from countdown_selfplay.distributed.processes import Processes
from countdown_selfplay.objectives import make_objective
from countdown_selfplay.random_state import seed_from
from countdown_selfplay.training.credit import credit

Script = Callable[[str, dict[str, Any], int], str]


@dataclass
class ScriptedRound:
    """write: (player, row, number of the sample among the row's) -> text. sizes: player -> (samples that its
    micro-batches hold over all processes, samples per row). gather: for more than one process, lists of this one ->
    lists of all. problems: the data set. limits: player -> correct answers after which it is done with a problem.
    `rows`: what was asked."""

    write: Script
    sizes: dict[str, tuple[int, int]]
    domain: Any = field(default_factory=CountdownDomain.tiny)
    index: int = 0
    objectives: dict[str, Any] = field(default_factory=dict)
    held_out: frozenset[str] = frozenset()
    rank: int = 0
    world: int = 1
    limits: dict[str, int] = field(default_factory=dict)
    gather: Callable[[list[Any]], list[Any]] = list
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    problems: list[Any] = field(default_factory=list)

    def dataset(self):
        return list(self.problems)

    def players(self, kind):
        return [player for player in self.sizes if player.split("/")[0] == kind]

    def capacity(self, role):
        return self.sizes[role][0]

    def group(self, role):
        return self.sizes[role][1]

    def sample(self, role, rows, n=None, problems=None):
        rows, n = list(rows), self.group(role) if n is None else n
        self.rows[role] = self.rows.get(role, []) + rows
        texts = [self.write(role, row, i) for row in rows for i in range(n)]
        if problems is None:
            return Rollout(role, rows, texts, n, rewards_B=torch.zeros(len(texts)))
        verdicts = self.domain.verify(texts, [problem for problem in problems for _ in range(n)])
        return Rollout(role, rows, texts, n, verdicts, torch.tensor([float(v.score) for v in verdicts]))

    def credit(self, rollout, rewards_B=None, correct_B=None, kept_B=None, group=None, imitate_B=None):
        objective = self.objectives.get(rollout.role) or make_objective("rloo")
        return credit(objective, self.gather, rollout, rewards_B, correct_B, kept_B, group)

    def solved_limit(self, role):
        return self.limits.get(role)

    def share(self, items):
        return Processes(self.rank, self.world).share(items)

    def seed(self, *key):
        return seed_from(0, *key, self.index)

    def next(self, **changes):
        """The round after this one."""
        return replace(self, **{"index": self.index + 1, "rows": {}, **changes})


class CountingDomain:
    """A domain that counts how often it was asked to judge each (text, problem)."""

    def __init__(self, domain):
        self.domain, self.asked = domain, Counter()

    def __getattr__(self, name):
        return getattr(self.domain, name)

    def verify(self, texts, problems):
        texts, problems = list(texts), list(problems)
        self.asked.update((text, self.domain.key(p)) for text, p in zip(texts, problems, strict=True))
        return self.domain.verify(texts, problems)


def in_ranks(world, play):
    """What `play(rank, gather)` returns on each of `world` threads, which meet in `gather` as processes do."""
    barrier, parts = Barrier(world), [[] for _ in range(world)]

    def gather_of(rank):
        def gather(items):
            parts[rank] = list(items)
            barrier.wait()
            found = [item for part in parts for item in part]
            barrier.wait()  # nobody writes before all have read
            return found

        return gather

    def played(rank):
        try:
            return play(rank, gather_of(rank))
        except BaseException:
            barrier.abort()  # nobody waits for a thread that has failed
            raise

    with ThreadPoolExecutor(world) as pool:
        return list(pool.map(played, range(world)))
