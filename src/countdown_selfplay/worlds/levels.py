"""Learned distributions over the levels of each setting of a domain (`domain.settings`), by REINFORCE: the factorized
policy of Task Difficulty and Diversity (Jin, Shen and Fang, section 3.4) on levels."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..contract.game import Proposal
from ..contract.metric import Metric, Panel
from ..contract.round import Round
from ..errors import ConfigError
from ..proposers.rungs import RUNGS, Heard, Rungs
from ..registry import Amount, Share
from ..rewards.learnability import Learnability

KIND = "kind"
"""Name of the distribution over problem families."""

LEVELS = (
    RUNGS[0],
    Metric(
        "proposer/level_<setting>",
        "Level of a setting (<task>.<name>) that factorized_levels expects of its next proposals, after the round. A "
        "curriculum that climbs raises it.",
        panel=Panel("Levels that the proposer expects", (), "Curriculum", "<setting>"),
    ),
)


class FactorizedLevels(Rungs):
    """Rungs whose action is a level of every setting, each drawn from a separate softmax, after the problem family if
    there are several (tasks): q(a) = q(kind) x product of q(level) over the family's settings.

    Logits z begin at 0 and take one step of gradient ascent per round, over the played problems that drew from the
    distribution: z += learning_rate x (mean[(r - b) (1_a - q)] + entropy x dH/dz), with r = 4p(1 - p), the reward of
    `learnability`, dH/dz = -q (ln q + H), and b the mean of r so far; in the first round that round's. Without a
    played problem there is no step.

    baseline: weight of the past in b. learning_rate: 0 stays uniform."""

    metrics: Sequence[Metric] = LEVELS

    def __init__(
        self, learning_rate: Amount = 4.0, entropy: Amount = 0.01, baseline: Share = 0.9, share: Share = 1.0
    ) -> None:
        super().__init__(share=share)
        self.learning_rate, self.entropy, self.baseline = learning_rate, entropy, baseline
        self.logits: dict[str, np.ndarray] = {}
        self.lowest: dict[str, int] = {}
        self.mean: float | None = None
        self.actions: list[dict[str, int]] = []  # for each slot: distribution -> drawn index

    def known(self, domain: Any) -> list[int]:
        if not domain.settings or domain.drawn is None:
            raise ConfigError(
                f"`proposer` (factorized_levels) chooses levels of settings, and the domain {type(domain).__name__} "
                "has none (`settings`, `at_levels` and `drawn` in contract/domain.py); take bandit_rungs, or play "
                "reasoning_gym."
            )
        return []

    def propose(self, round: Round, anchors: Sequence[Any]) -> list[Proposal]:
        domain = round.domain
        self.known(domain)
        self._open(domain.settings)
        generator, kinds = np.random.default_rng(round.seed("levels")), list(domain.settings)
        self.actions, requests = [], []
        for _ in range(self.count(round)):
            place = {KIND: self._drawn(KIND, generator)}
            kind = kinds[place[KIND]]
            place |= {name: self._drawn(name, generator) for name in _of(kind, domain.settings)}
            self.actions.append(place)
            levels = [self.lowest[name] + at for name, at in place.items() if name != KIND]
            requests.append(domain.at_levels(kind, levels))
        drawn = domain.drawn(requests, round.seed("problems"), round.held_out)
        self.slot_of = [slot for slot, problem in enumerate(drawn) if problem is not None]
        rungs = {slot: domain.rung(drawn[slot]) for slot in self.slot_of}
        self.played = {"proposer/rung_mean": float(np.mean(list(rungs.values())))} if rungs else {}
        return [Proposal(drawn[slot], request={"rung": rungs[slot]}) for slot in self.slot_of]

    def hear(self, heard: Sequence[Heard], answers: int) -> None:
        if not heard:
            return
        reward_V = Learnability()(np.array([one.rate for one in heard]))
        base = float(reward_V.mean()) if self.mean is None else self.mean
        for name, logits_L in self.logits.items():
            indices = [i for i, one in enumerate(heard) if name in self.actions[one.slot]]
            if not indices:
                continue
            q_L = _softmax(logits_L)
            drew_OL = np.eye(len(q_L))[[self.actions[heard[i].slot][name] for i in indices]]
            policy_L = ((reward_V[indices] - base)[:, None] * (drew_OL - q_L)).mean(0)
            entropy_L = -q_L * (np.log(q_L) - (q_L * np.log(q_L)).sum())
            self.logits[name] = logits_L + self.learning_rate * (policy_L + self.entropy * entropy_L)
        keep = 0.0 if self.mean is None else self.baseline
        self.mean = keep * base + (1 - keep) * float(reward_V.mean())

    def logged(self) -> dict[str, float]:
        values = dict(self.played)
        for name, logits_L in self.logits.items():
            if name != KIND and len(logits_L) > 1:
                expected = float((_softmax(logits_L) * np.arange(len(logits_L))).sum())
                values[f"proposer/level_{name}"] = self.lowest[name] + expected
        return values

    def _open(self, settings: Mapping[str, Mapping[str, tuple[int, int]]]) -> None:
        """Initialise logits of new distributions, and of those of another size."""
        sizes = {KIND: len(settings)}
        for kind, ranges in settings.items():
            for name, (low, high) in ranges.items():
                sizes[f"{kind}.{name}"], self.lowest[f"{kind}.{name}"] = high - low + 1, low
        known = {name: logits for name, logits in self.logits.items() if sizes.get(name) == len(logits)}
        self.logits = {name: known.get(name, np.zeros(size)) for name, size in sizes.items()}

    def _drawn(self, name: str, generator: np.random.Generator) -> int:
        return int(generator.choice(len(self.logits[name]), p=_softmax(self.logits[name])))

    def state_dict(self) -> dict[str, Any]:
        return {"logits": {name: logits.copy() for name, logits in self.logits.items()}, "mean": self.mean}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.logits = {name: np.array(logits, dtype=float) for name, logits in state["logits"].items()}
        self.mean = state["mean"]


def _of(kind: str, settings: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [f"{kind}.{name}" for name in settings[kind]]


def _softmax(logits_L: np.ndarray) -> np.ndarray:
    weights_L = np.exp(logits_L - logits_L.max())
    return np.asarray(weights_L / weights_L.sum())
