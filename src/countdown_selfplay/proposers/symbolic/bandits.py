"""Bandits over easy, medium and hard regimes (Task Difficulty and Diversity, sections 3.4 and 4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...contract.round import Round
from ...errors import ConfigError
from ...registry import Amount, Count
from ..arms import Arms, Discount, Window
from .refresh import Choice, Scored, Symbolic

REGIMES: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "easy": (("small",), ("add_sub",)),
    "medium": (("small", "large", "replace"), ("multiply",)),
    "hard": (("replace", "resample"), ("divide", "multi_step")),
}
"""Map of each arm to its number actions and expression actions, drawn uniformly. The source names only the regimes."""


@dataclass
class Bandit(Symbolic):
    """Bandit whose refresh is `pulls` pulls, each of an equal part of the candidates. A pull's reward is the mean
    R_gen of its valid candidates, scaled to [0, 1] by the bounds of R_gen; without any it is 0. Task Difficulty and
    Diversity defines no reward of an arm.

    discount, window: forgetting of rewards (Arms)."""

    pulls: Count = 8
    discount: Discount = 1.0
    window: Window = 0

    arms: ClassVar[Sequence[str]] = tuple(REGIMES)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pulls > self.candidates:
            raise ConfigError(f"`pulls` ({self.pulls}) must be at most `candidates` ({self.candidates}).")
        self.heard = Arms(self.arms, self.discount, self.window)
        self.pulled: list[str] = []

    def pull(self, generator: np.random.Generator, waiting: Mapping[str, int]) -> str:
        """Return the arm to pull. waiting: pulls of this refresh by arm, whose rewards are unknown."""
        raise NotImplementedError

    def choose(self, round: Round, seeds: Sequence[Any]) -> Choice:
        generator = np.random.default_rng(round.seed("arms"))
        self.pulled = []
        for _ in range(self.pulls):
            self.pulled.append(self.pull(generator, {arm: self.pulled.count(arm) for arm in self.arms}))
        arms = [self.pulled[self._pull_of(i)] for i in range(len(seeds))]
        numbers = [str(generator.choice(REGIMES[arm][0])) for arm in arms]
        kinds = [str(generator.choice(REGIMES[arm][1])) for arm in arms]
        return Choice(numbers, kinds, arms)

    def _pull_of(self, row: int) -> int:
        return row * self.pulls // self.candidates

    def learn_scores(self, round: Round, scored: Scored) -> dict[str, Any]:
        low, high = self.select.bounds
        for number, arm in enumerate(self.pulled):
            own = [s for s, row in zip(scored.score, scored.rows, strict=True) if self._pull_of(row) == number]
            mean = sum(own) / len(own) if own else low
            self.heard.record(arm, (mean - low) / (high - low) if high > low else 0.0)
        return {f"proposer/value_{arm}": mean for arm, mean in self.heard.means().items()}

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "bandit": self.heard.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.heard.load_state_dict(state["bandit"])


@dataclass
class UCB(Bandit):
    """Bandit that pulls the arm of the highest upper confidence bound (Arms.ucb). `discount` and `window` apply to the
    counts of pulls too; a pull with unknown reward counts with weight 1."""

    exploration: Amount = 1.0

    def pull(self, generator: np.random.Generator, waiting: Mapping[str, int]) -> str:
        return self.heard.ucb(waiting, self.exploration)


@dataclass
class Thompson(Bandit):
    """Bandit that pulls the arm with the highest draw from the posteriors of the means (Arms.thompson)."""

    def pull(self, generator: np.random.Generator, waiting: Mapping[str, int]) -> str:
        return self.heard.thompson(generator)
