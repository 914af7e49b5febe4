"""A Round that samples from models and trains nothing: for collecting a game's samples, and for measuring play."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..contract.round import Rollout, Turn
from ..random_state import seed_from
from .sampling import sample_completions

ENDLESS = 1 << 40
"""Samples that a role has room for: nothing is trained in the round, so nothing is left out."""


@dataclass
class Player:
    """Who plays a kind: a model, its tokenizer, and how it samples."""

    model: Any
    tokenizer: Any
    num_generations: int
    sampling: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class CollectingRound:
    """A Round (contract/round.py) of one process. `truncated` holds what the token budget cut, by rollout."""

    domain: Any
    roster: Mapping[str, Player]
    index: int
    key: tuple[object, ...]
    """What its random numbers depend on, beside role and turn."""
    held_out: frozenset[str] = frozenset()
    rank: int = 0
    world: int = 1
    truncated: dict[int, list[bool]] = field(default_factory=dict)
    turns: int = 0

    def players(self, kind: str) -> list[str]:
        return [kind] if kind in self.roster else []

    def capacity(self, role: str) -> int:
        return ENDLESS

    def group(self, role: str) -> int:
        return self.roster[role].num_generations

    def room(self, role: str) -> int:
        return self.capacity(role) // self.group(role)

    def sample(
        self, role: str, rows: Sequence[Any], n: int | None = None, problems: Sequence[Any] | None = None
    ) -> Rollout:
        player, n = self.roster[role], self.group(role) if n is None else n
        self.turns += 1
        drawn = sample_completions(
            player.model,
            player.tokenizer,
            [row["prompt"] for row in rows],
            n,
            seed=seed_from(*self.key, self.index, role, self.turns),
            stop_strings=self.domain.stop_strings(role),
            **player.sampling,
        )
        flat = [completion for group in drawn for completion in group]
        texts, asked = [c.text for c in flat], [p for p in problems or [] for _ in range(n)]
        verdicts = None if problems is None else self.domain.verify(texts, asked)
        scores = torch.tensor([float(v.score) for v in verdicts or []]) if verdicts else torch.zeros(len(texts))
        rollout = Rollout(role, list(rows), texts, n, verdicts, scores)
        self.truncated[id(rollout)] = [c.truncated for c in flat]
        return rollout

    def credit(
        self,
        rollout: Rollout,
        rewards_B: Any = None,
        correct_B: Any = None,
        kept_B: Any = None,
        group: Any = None,
        imitate_B: Any = None,
    ) -> Turn:
        rewards = rollout.rewards_B if rewards_B is None else torch.as_tensor(rewards_B, dtype=torch.float)
        return Turn(rollout, torch.zeros(len(rollout.texts)), rewards, has_signal=False, group=group or rollout.n)

    def solved_limit(self, role: str) -> int | None:
        return None

    def gather(self, items: list[Any]) -> list[Any]:
        return items

    def share(self, items: Sequence[Any]) -> list[Any]:
        return list(items)

    def seed(self, *key: object) -> int:
        return seed_from(*self.key, self.index, *key)
