"""UCB and Thompson sampling over the rungs of a domain: a pull plays problems of a rung, and its reward is how
informative they were."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...contract.round import Round
from ...proposers.arms import Arms, Discount, Window, check_forgetting
from ...proposers.rungs import Heard, RungList, Rungs
from ...registry import Amount, Count, Share
from ...rewards.solve_rate import Learnability

FORGETTING = 0.99
"""Default discount: some 100 pulls count, because the frontier moves."""


class RungArms(Rungs):
    """Rungs as the arms of a bandit: a round is `pulls` pulls (at most one per slot), each of an equal part of
    the slots. A pull's reward is the mean 4p(1 - p) of its problems, in [0, 1]; one without a played problem
    does not count.

    discount, window: forgetting of rewards (Arms); None and 0: a discount of .99."""

    def __init__(
        self,
        rungs: RungList | None = None,
        pulls: Count = 8,
        discount: Discount | None = None,
        window: Window = 0,
        share: Share = 1.0,
    ) -> None:
        super().__init__(rungs, share)
        self.discount = (1.0 if window else FORGETTING) if discount is None else discount
        check_forgetting(self.discount, window)
        self.pulls, self.window = pulls, window
        self.heard: Arms | None = None
        self.loaded: Mapping[str, Any] | None = None
        self.pulled: list[str] = []
        self.slots = 0

    def pull(self, heard: Arms, generator: np.random.Generator, waiting: Mapping[str, int]) -> str:
        """Return the arm to pull. waiting: pulls of this round with unknown rewards."""
        raise NotImplementedError

    def choose(self, round: Round, rungs: Sequence[int], count: int) -> Sequence[int]:
        heard = self._arms(rungs)
        generator, self.pulled, self.slots = np.random.default_rng(round.seed("arms")), [], count
        for _ in range(min(self.pulls, count)):
            waiting = {arm: self.pulled.count(arm) for arm in heard.sums}
            self.pulled.append(self.pull(heard, generator, waiting))
        return [int(self.pulled[self._pull_of(slot)]) for slot in range(count)]

    def _arms(self, rungs: Sequence[int]) -> Arms:
        """Return the arms, made when the rungs are known; a resumed run may have others, and keeps the state
        of common ones."""
        if self.heard is None:
            self.heard = Arms([str(rung) for rung in rungs], self.discount, self.window)
            if self.loaded is not None:
                known = self.heard.sums.keys()
                past = [one for one in self.loaded["past"] if one[0] in known]
                old = {arm: sums for arm, sums in self.loaded["sums"].items() if arm in known}
                self.heard.load_state_dict({"sums": {**self.heard.sums, **old}, "past": past})
        return self.heard

    def hear(self, found: Sequence[Heard], answers: int) -> None:
        assert self.heard is not None
        for number, arm in enumerate(self.pulled):
            own = [one.rate for one in found if self._pull_of(one.slot) == number]
            if own:
                self.heard.record(arm, float(Learnability()(np.array(own)).mean()))

    def _pull_of(self, slot: int) -> int:
        return slot * len(self.pulled) // self.slots

    def values(self) -> Mapping[int, float]:
        return {} if self.heard is None else {int(arm): mean for arm, mean in self.heard.means().items()}

    def state_dict(self) -> dict[str, Any]:
        return {"arms": self.loaded if self.heard is None else self.heard.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.heard, self.loaded = None, state["arms"]


class UCBRungs(RungArms):
    """RungArms by the highest upper confidence bound (Arms.ucb)."""

    def __init__(
        self,
        rungs: RungList | None = None,
        pulls: Count = 8,
        discount: Discount | None = None,
        window: Window = 0,
        exploration: Amount = 1.0,
        share: Share = 1.0,
    ) -> None:
        super().__init__(rungs, pulls, discount, window, share)
        self.exploration = exploration

    def pull(self, heard: Arms, generator: np.random.Generator, waiting: Mapping[str, int]) -> str:
        return heard.ucb(waiting, self.exploration)


class ThompsonRungs(RungArms):
    """RungArms by the highest draw from the posteriors of the means (Arms.thompson)."""

    def pull(self, heard: Arms, generator: np.random.Generator, waiting: Mapping[str, int]) -> str:
        return heard.thompson(generator)
