"""Bandit arms: UCB1 and Thompson sampling, with or without forgetting. Arms are regimes of symbolic edits
(symbolic/bandits.py) or rungs of a domain (lab.proposers.rungs)."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, Gt, Le

from ..errors import ConfigError

Discount = Annotated[float, Gt(0), Le(1)]
Window = Annotated[int, Ge(0)]


class Arms:
    """Bandit statistics: pulls and rewards, in [0, 1], of each arm.

    discount: below 1, a reward has weight discount^(number of later pulls). window: above 0, only the last
    `window` pulls count (discounted and sliding-window UCB: Garivier and Moulines, 2011). Neither: all pulls
    have equal weight."""

    def __init__(self, names: Sequence[str], discount: float = 1.0, window: int = 0) -> None:
        check_forgetting(discount, window)
        self.discount, self.window = discount, window
        self.sums = {name: [0.0, 0.0] for name in names}  # pulls, and their rewards
        self.past: deque[tuple[str, float]] = deque()

    def record(self, arm: str, reward: float) -> None:
        """Record a pull of an arm and its reward in [0, 1]."""
        for sums in self.sums.values():
            sums[0], sums[1] = sums[0] * self.discount, sums[1] * self.discount
        self.sums[arm][0] += 1.0
        self.sums[arm][1] += float(reward)
        if self.window:
            self.past.append((arm, float(reward)))
            if len(self.past) > self.window:
                self.past.popleft()
            for name in self.sums:  # summed again: subtraction would leave rounding errors
                values = [value for at, value in self.past if at == name]
                self.sums[name] = [float(len(values)), math.fsum(values)]

    def means(self) -> dict[str, float]:
        """Return the mean reward of each pulled arm, weighted by `discount` or limited to the last `window` pulls."""
        return {arm: total / count for arm, (count, total) in self.sums.items() if count > 0}

    def ucb(self, waiting: Mapping[str, int], exploration: float) -> str:
        """Return the arm of the highest mean reward plus exploration x sqrt(2 ln t / n), with t pulls of which n are
        the arm's; an arm without a pull first (UCB1: Auer, Cesa-Bianchi and Fischer, 2002). waiting: pulls by arm
        with unknown reward, which count in t and n; the mean is 1 before a reward is known. Ties: the first."""
        count = {arm: self.sums[arm][0] + waiting[arm] for arm in self.sums}
        total = sum(count.values())

        def bound(arm: str) -> float:
            if count[arm] == 0:
                return math.inf
            known = self.sums[arm][0]
            mean = self.sums[arm][1] / known if known else 1.0
            return mean + exploration * math.sqrt(2 * math.log(max(total, 1.0)) / count[arm])

        return max(self.sums, key=bound)

    def thompson(self, generator: np.random.Generator) -> str:
        """Draw a mean of each arm from Beta(1 + rewards, 1 + pulls - rewards), where a reward in [0, 1] counts as a
        fraction of a success; return the arm of the highest."""
        drawn = {
            arm: generator.beta(1 + total, 1 + max(count - total, 0.0)) for arm, (count, total) in self.sums.items()
        }
        return max(self.sums, key=drawn.__getitem__)

    def state_dict(self) -> dict[str, Any]:
        sums = {arm: list(sums) for arm, sums in self.sums.items()}
        return {"sums": sums, "past": [list(one) for one in self.past]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.sums = {arm: list(sums) for arm, sums in state["sums"].items()}
        self.past = deque((arm, reward) for arm, reward in state["past"])


def check_forgetting(discount: float, window: int) -> None:
    """Raise ConfigError if both ways of forgetting are set."""
    if window and discount < 1:
        raise ConfigError(f"`window` ({window}) and `discount` ({discount}) both forget; leave one of them unset.")
