"""Proposers over the rungs of a domain: bandits (UCB, Thompson sampling), and an oracle, a reference with information
that proposers must estimate."""

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...contract.game import Proposal
from ...contract.metric import Metric, Panel
from ...contract.round import Round
from ...data.jsonl import json_file
from ...errors import ConfigError, DataError
from ...options import is_number
from ...proposers.arms import Arms, Discount, Window
from ...proposers.metrics import RUNGS
from ...proposers.rungs import Heard, RungList, Rungs
from ...proposers.symbolic.difficulty import measured_rates
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
        self.pulls, self.window = pulls, window
        self.heard = Arms([], self.discount, window)  # a round adds its rungs
        self.pulled: list[str] = []
        self.slots = 0

    def pull(self, generator: np.random.Generator, waiting: Mapping[str, int]) -> str:
        """Return the arm to pull. waiting: pulls of this round with unknown rewards."""
        raise NotImplementedError

    def choose(self, round: Round, rungs: Sequence[int], count: int) -> Sequence[int]:
        # A resumed run may have other rungs, and keeps the state of common ones.
        self.heard.sums = {str(rung): self.heard.sums.get(str(rung), [0.0, 0.0]) for rung in rungs}
        self.heard.past = deque(pull for pull in self.heard.past if pull[0] in self.heard.sums)
        generator, self.pulled, self.slots = np.random.default_rng(round.seed("arms")), [], count
        for _ in range(min(self.pulls, count)):
            waiting = {arm: self.pulled.count(arm) for arm in self.heard.sums}
            self.pulled.append(self.pull(generator, waiting))
        return [int(self.pulled[self._pull_of(slot)]) for slot in range(count)]

    def hear(self, found: Sequence[Heard], answers: int) -> None:
        for number, arm in enumerate(self.pulled):
            own = [one.rate for one in found if self._pull_of(one.slot) == number]
            if own:
                self.heard.record(arm, float(Learnability()(np.array(own)).mean()))

    def _pull_of(self, slot: int) -> int:
        return slot * len(self.pulled) // self.slots

    def values(self) -> Mapping[int, float]:
        return {int(arm): mean for arm, mean in self.heard.means().items()}

    def state_dict(self) -> dict[str, Any]:
        return {"arms": self.heard.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["arms"] is not None:
            self.heard.load_state_dict(state["arms"])


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

    def pull(self, generator: np.random.Generator, waiting: Mapping[str, int]) -> str:
        return self.heard.ucb(waiting, self.exploration)


class ThompsonRungs(RungArms):
    """RungArms by the highest draw from the posteriors of the means (Arms.thompson)."""

    def pull(self, generator: np.random.Generator, waiting: Mapping[str, int]) -> str:
        return self.heard.thompson(generator)


PLAYED = 2
"""Number of rungs that an oracle plays at a time."""

ORACLE = (
    *RUNGS,
    Metric(
        "proposer/probe_answers",
        "Answers of the provers that oracle_rungs (half) took in the round to measure the rungs with. They train "
        "nobody; `round/generations` has them too.",
        panel=Panel("Answers that measure the rungs", (0,), "Curriculum", "answers"),
    ),
)


class OracleRungs(Rungs):
    """Rungs that plays the two best rungs alone, in equal parts.

    kind: "gain": the rungs with the most measured gain per answer; "half": those whose solve rate is nearest one half
    (ties: the lower). gains: {round: {rung: gain}}, or the path of a JSON file with it, from short separate training
    probes; the latest round at or before the current one applies. every: rounds between measurements of "half",
    beginning with the first. probe: new problems per rung of a measurement, excluded from training. samples: answers
    to each (None: the prover's num_generations)."""

    metrics = ORACLE

    def __init__(
        self,
        kind: Literal["gain", "half"] = "gain",
        gains: Mapping[Any, Any] | str | None = None,
        every: Count = 3,
        probe: Count = 16,
        samples: Count | None = None,
        rungs: RungList | None = None,
        share: Share = 1.0,
    ) -> None:
        super().__init__(rungs, share)
        if (gains is None) == (kind == "gain"):
            raise ConfigError(
                f"`gains` of oracle_rungs is {'missing' if gains is None else 'set'}, and kind is {kind}: kind gain "
                "needs it, a table {round: {rung: gain}} or the path of one, and kind half does not read it."
            )
        self.kind, self.every, self.probe, self.samples = kind, every, probe, samples
        self.gains = {} if gains is None else read_gains(gains)
        self.rates: dict[int, float] = {}
        self.probed = 0  # answers, in this round
        self.known_now: dict[int, float] = {}  # basis of this round's choice

    def propose(self, round: Round, anchors: Sequence[Any]) -> list[Proposal]:
        self.probed = 0
        if self.kind == "half":
            rungs = self.known(round.domain)
            if round.index % self.every == 0 or not self.rates.keys() >= set(rungs):
                self._measure(round, rungs)
        return super().propose(round, anchors)

    def _measure(self, round: Round, rungs: Sequence[int]) -> None:
        """Return the solve rate of each rung; one without a problem is unknown and not played."""
        provers = round.players("prover")
        samples = round.group(provers[0]) if self.samples is None else self.samples
        problems, of_N = list[Any](), list[int]()
        for rung in rungs:
            problems += round.domain.random_of_rung(self.probe, rung, round.seed("probe", rung), round.held_out)
            of_N += [rung] * (len(problems) - len(of_N))
        rate_N = measured_rates(round, problems, samples)
        self.rates = {rung: float(rate_N[np.array(of_N) == rung].mean()) for rung in dict.fromkeys(of_N)}
        self.probed = len(rate_N) * samples * len(provers)

    def weights(self, round: Round, rungs: Sequence[int]) -> Sequence[float]:
        if self.kind == "half":
            self.known_now = {rung: self.rates[rung] for rung in rungs if rung in self.rates}
            best = sorted(self.known_now, key=lambda rung: (abs(self.known_now[rung] - 0.5), rung))[:PLAYED]
        else:
            latest = max((at for at in self.gains if at <= round.index), default=None)
            gains = {} if latest is None else self.gains[latest]
            self.known_now = {rung: gain for rung, gain in gains.items() if rung in rungs}
            if not self.known_now:
                raise DataError(
                    f"`gains` of oracle_rungs has none of the rungs {', '.join(map(str, rungs))} at round "
                    f"{round.index}; it needs an entry for round 0, and those that are played."
                )
            best = sorted(self.known_now, key=lambda rung: (-self.known_now[rung], rung))[:PLAYED]
        return [float(rung in best) for rung in rungs]

    def values(self) -> Mapping[int, float]:
        return self.known_now

    def logged(self) -> dict[str, float]:
        return {**super().logged(), **({"proposer/probe_answers": self.probed} if self.probed else {})}

    def state_dict(self) -> dict[str, Any]:
        return {"rates": {str(rung): rate for rung, rate in self.rates.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.rates = {int(rung): float(rate) for rung, rate in state["rates"].items()}


def read_gains(gains: Mapping[Any, Any] | str) -> dict[int, dict[int, float]]:
    """Return the table, or that of the JSON file at this path, with numbers for its keys; else raise DataError."""
    cure = "`gains` of oracle_rungs wants a table {round: {rung: gain}}"
    table = json_file(Path(gains), cure) if isinstance(gains, str) else gains
    try:
        found = {int(at): {int(rung): gain for rung, gain in own.items()} for at, own in table.items()}
    except (AttributeError, TypeError, ValueError):
        raise DataError(f"{cure} with whole numbers for rounds and rungs, and got {str(table)[:80]}.") from None
    gained = [gain for own in found.values() for gain in own.values()]
    if not gained or not all(is_number(gain) for gain in gained) or min(found) < 0:
        raise DataError(f"{cure} with finite numbers for gains and rounds from 0 on, and got {str(table)[:80]}.")
    return {at: {rung: float(gain) for rung, gain in own.items()} for at, own in found.items()}
