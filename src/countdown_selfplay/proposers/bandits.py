"""Candidates from easy, medium and hard regimes, which a bandit chooses among (seed 004, sections 3.4 and 4)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..contract.round import Round
from ..errors import ConfigError
from ..rewards.base import is_number
from .symbolic import Choice, Scored, Symbolic, check_count

REGIMES: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "easy": (("small",), ("add_sub",)),
    "medium": (("small", "large", "replace"), ("multiply",)),
    "hard": (("replace", "resample"), ("divide", "multi_step")),
}
"""Arm -> number actions and expression actions that it draws from, uniformly. The paper names the regimes alone."""


@dataclass
class Bandit(Symbolic):
    """A refresh is `pulls` pulls, each of an equal part of the candidates. A pull's reward is the mean R_gen of its
    valid candidates, moved to [0, 1] by its least and greatest value; without any it is 0. With reward="progress" it
    is, once a round, the mean change of the solve rates of the arm's problems from one time they are played to the
    next, moved from [-1, 1], and .5 for an arm of the last refresh of which none was played twice: the paper does not
    say what rewards an arm.

    discount < 1: a reward counts discount^age, the age in rewards. window > 0: the last `window` pulls alone count
    (discounted and sliding-window UCB: Garivier and Moulines, 2011). Neither: all pulls count alike.
    """

    pulls: int = 8
    discount: float = 1.0
    window: int = 0
    reward: str = "score"

    arms: ClassVar[Sequence[str]] = tuple(REGIMES)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("pulls", self.pulls, 1)
        check_count("window", self.window, 0)
        if self.pulls > self.candidates:
            raise ConfigError(
                f"`pulls` ({self.pulls}) of the bandit must be at most `candidates` ({self.candidates}): a pull "
                "without a candidate would count as a failure of its arm; pull less, or raise candidates."
            )
        if not is_number(self.discount) or not 0 < self.discount <= 1:
            raise ConfigError(f"`discount` ({self.discount!r}) of the bandit must be above 0 and at most 1.")
        if self.reward not in ("score", "progress"):
            raise ConfigError(f"`reward` ({self.reward!r}) of the bandit must be score or progress.")
        if self.window and self.discount < 1:
            raise ConfigError(
                f"`window` ({self.window}) and `discount` ({self.discount}) both forget; leave one of them unset."
            )
        self.sums = {arm: [0.0, 0.0] for arm in self.arms}  # pulls, and their rewards
        self.past: deque[tuple[str, float]] = deque()
        self.pulled: list[str] = []
        self.unheard: list[str] = []  # arms of the last refresh whose problems have shown no progress or loss yet

    def pull(self, generator: np.random.Generator, waiting: Mapping[str, int]) -> str:
        """The arm to pull. waiting: pulls of this refresh whose rewards are not known yet."""
        raise NotImplementedError

    def choose(self, round: Round, seeds: Sequence[Any]) -> Choice:
        generator = np.random.default_rng(round.seed("arms"))
        for arm in self.unheard:
            self.record(arm, 0.5)
        self.pulled = []
        for _ in range(self.pulls):
            self.pulled.append(self.pull(generator, {arm: self.pulled.count(arm) for arm in self.arms}))
        self.unheard = sorted(set(self.pulled)) if self.reward == "progress" else []
        arms = [self.pulled[self._pull_of(i)] for i in range(len(seeds))]
        numbers = [str(generator.choice(REGIMES[arm][0])) for arm in arms]
        kinds = [str(generator.choice(REGIMES[arm][1])) for arm in arms]
        return Choice(numbers, kinds, arms)

    def _pull_of(self, row: int) -> int:
        return row * self.pulls // self.candidates

    def learn_scores(self, round: Round, scored: Scored) -> dict[str, Any]:
        if self.reward == "score":
            low, high = self.select.bounds
            for number, arm in enumerate(self.pulled):
                own = [s for s, row in zip(scored.score, scored.rows, strict=True) if self._pull_of(row) == number]
                mean = sum(own) / len(own) if own else low
                self.record(arm, (mean - low) / (high - low) if high > low else 0.0)
        return {f"proposer/value_{arm}": total / count for arm, (count, total) in self.sums.items() if count > 0}

    def learn_progress(self, changes: dict[str, list[float]]) -> None:
        if self.reward == "progress":
            self.unheard = [arm for arm in self.unheard if arm not in changes]
            for arm, found in sorted(changes.items()):
                self.record(arm, (1 + sum(found) / len(found)) / 2)

    def record(self, arm: str, reward: float) -> None:
        """One pull of an arm, and its reward in [0, 1]."""
        for sums in self.sums.values():
            sums[0], sums[1] = sums[0] * self.discount, sums[1] * self.discount
        self.sums[arm][0] += 1.0
        self.sums[arm][1] += float(reward)
        if self.window:
            self.past.append((arm, float(reward)))
            if len(self.past) > self.window:
                self.past.popleft()
            for name in self.arms:  # added up anew: what was taken off again would leave rounding errors
                own = [value for at, value in self.past if at == name]
                self.sums[name] = [float(len(own)), math.fsum(own)]

    def state_dict(self) -> dict[str, Any]:
        own = {"sums": {arm: list(sums) for arm, sums in self.sums.items()}, "past": [list(one) for one in self.past]}
        own["unheard"] = list(self.unheard)
        return {**super().state_dict(), "bandit": own}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.sums = {arm: list(sums) for arm, sums in state["bandit"]["sums"].items()}
        self.past = deque((arm, reward) for arm, reward in state["bandit"]["past"])
        self.unheard = list(state["bandit"]["unheard"])


@dataclass
class UCB(Bandit):
    """The arm of the highest mean reward plus exploration x sqrt(2 ln t / n), t pulls of which n are the arm's; an arm
    without a pull first (UCB1: Auer, Cesa-Bianchi and Fischer, 2002). With `discount` or `window`, t and n are those
    that still count. A pull whose reward is not known yet counts in t and n."""

    exploration: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_number(self.exploration) or self.exploration < 0:
            raise ConfigError(f"`exploration` ({self.exploration!r}) of ucb must be a number of at least 0.")

    def pull(self, generator: np.random.Generator, waiting: Mapping[str, int]) -> str:
        count = {arm: self.sums[arm][0] + waiting[arm] for arm in self.arms}
        total = sum(count.values())

        def bound(arm: str) -> float:
            if count[arm] == 0:
                return math.inf
            known = self.sums[arm][0]
            mean = self.sums[arm][1] / known if known else 1.0
            return mean + self.exploration * math.sqrt(2 * math.log(max(total, 1.0)) / count[arm])

        return max(self.arms, key=bound)  # of equal bounds the first


@dataclass
class Thompson(Bandit):
    """The arm whose mean, drawn from Beta(1 + rewards, 1 + pulls - rewards), is highest: rewards in [0, 1] count as
    shares of a success."""

    def pull(self, generator: np.random.Generator, waiting: Mapping[str, int]) -> str:
        drawn = {
            arm: generator.beta(1 + total, 1 + max(count - total, 0.0)) for arm, (count, total) in self.sums.items()
        }
        return max(self.arms, key=drawn.__getitem__)
