"""Proposers over the rungs of a domain: nobody writes problems, the domain makes them, and what is chosen
is how many of each rung. Controls of a trained conjecturer, and its rivals."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from annotated_types import MinLen

from ..contract.game import BaseProposer, Outcome, Proposal
from ..contract.metric import Metric, Panel
from ..contract.round import Round, Turn, from_main
from ..errors import ConfigError, GameError
from ..registry import Amount, Share

RungList = Annotated[Sequence[int], MinLen(1)]

RUNGS = (
    Metric(
        "proposer/rung_mean",
        "Mean rung of the round's proposals (Countdown: numbers in a problem). A curriculum that climbs raises it; "
        "uniform rungs keep it at the middle of the range.",
        panel=Panel("Mean rung of the proposals", (), "Curriculum", "rung"),
    ),
    Metric(
        "proposer/value_<rung>",
        "What the proposer thinks of a rung, after the round. bandit_rungs: running mean of the unbiased p(1 - p), at "
        "most 1/4 in the mean; ucb_rungs, thompson_rungs: mean of 4p(1 - p) over its pulls, in [0, 1]; oracle_rungs: "
        "the solve rate that was measured apart (half), or the gain of the table (gain).",
        panel=Panel("What the proposer thinks of a rung", (0,), "Curriculum", "rung <rung>"),
    ),
)


class Heard(NamedTuple):
    """What a played proposal was found to be."""

    slot: int
    """Its place among those that were chosen for the round."""
    rung: int
    rate: float
    """The share of all provers' answers that are right, whatever `solve_rate_over` says."""


class Rungs(BaseProposer):
    """Base. A round's slots, all of them, get problems of rungs that a subclass chooses, made by
    `domain.random_of_rung`; asked={"rung": r}. What the provers solved of each rung is told to `hear`.

    rungs: those that are played; None: all of the domain. share: of the slots that it fills; the data set's problems
    take the others. Give the game an `anchor_fraction` of 0, for slots are dealt to what was asked for in turn: where
    some find none, the choice would be flattened.

    Draws are seeded by the round: the same on every process, and again in a resume.
    """

    needs = ("prover",)
    metrics: Sequence[Metric] = RUNGS
    fills_slots = True

    def __init__(self, rungs: RungList | None = None, share: Share = 1.0) -> None:
        self.rungs, self.share = None if rungs is None else sorted(set(rungs)), share
        self.played: dict[str, float] = {}
        self.slot_of: list[int] = []  # of each proposal of the round

    def choose(self, round: Round, rungs: Sequence[int], count: int) -> Sequence[int]:
        """The rung of each of `count` slots: drawn by `weights`."""
        weights = np.asarray(self.weights(round, rungs), dtype=float)
        generator = np.random.default_rng(round.seed("rungs"))
        return list(generator.choice(rungs, count, p=weights / weights.sum()).tolist())

    def weights(self, round: Round, rungs: Sequence[int]) -> Sequence[float]:
        """How likely each rung is, up to a factor."""
        raise NotImplementedError

    def hear(self, found: Sequence[Heard], answers: int) -> None:
        """The proposals that were played, each with so many answers."""

    def values(self) -> Mapping[int, float]:
        """What is thought of each rung; a rung without a value is absent."""
        return {}

    def check(self, players: Mapping[str, Sequence[str]], domain: Any) -> None:
        """ConfigError for a conjecturer, which would never be asked, and for a domain without these rungs."""
        if players.get("conjecturer"):
            raise ConfigError(
                f"`proposer` ({type(self).__name__}) takes its problems from the domain, and the conjecturer would "
                "write none; set `roles.conjecturer.players` to 0, or take the proposer policies."
            )
        self.known(domain)

    def known(self, domain: Any) -> list[int]:
        """The rungs that are played, of those that the domain has."""
        if domain.random_of_rung is None:
            raise ConfigError(
                f"`proposer` ({type(self).__name__}) plays rungs, and the domain {type(domain).__name__} has none; "
                "give it `rungs`, `rung` and `random_of_rung` (contract/domain.py), or take another proposer."
            )
        there = list(domain.rungs)
        outside = [rung for rung in self.rungs or () if rung not in there]
        if outside:
            raise ConfigError(
                f"`rungs` of the proposer lists {', '.join(map(str, outside))}, and the domain's rungs are "
                f"{', '.join(map(str, there))}; list some of those, or widen the domain's range."
            )
        return there if self.rungs is None else list(self.rungs)

    def count(self, round: Round) -> int:
        """How many problems it makes for a round."""
        return int(self.share * round.slots("prover") + 0.5)

    def propose(self, round: Round, anchors: Sequence[Any]) -> list[Proposal]:
        rungs = self.known(round.domain)
        slots = self.count(round)
        chosen = [int(r) for r in from_main(round, np.asarray(self.choose(round, rungs, slots)))]
        made = {
            rung: iter(round.domain.random_of_rung(count, rung, round.seed("problems", rung), round.held_out))
            for rung, count in sorted(Counter(chosen).items())
        }
        found = [next(made[rung], None) for rung in chosen]  # a small rung may have fewer problems
        self.slot_of = [slot for slot, problem in enumerate(found) if problem is not None]
        self.played = {"proposer/rung_mean": float(np.mean([chosen[i] for i in self.slot_of]))} if self.slot_of else {}
        return [Proposal(found[slot], asked={"rung": chosen[slot]}) for slot in self.slot_of]

    def learn(self, round: Round, outcome: Outcome) -> list[Turn]:
        rate_P = outcome.correct_MPG.mean((0, 2))
        found = [
            Heard(slot, proposal.asked["rung"], float(rate_P[index]))
            for slot, proposal, index in zip(self.slot_of, outcome.proposals, outcome.problem_of, strict=True)
            if index is not None
        ]
        self.hear(found, outcome.correct_MPG.shape[0] * outcome.correct_MPG.shape[2])
        return []

    def logged(self) -> dict[str, float]:
        return {**self.played, **{f"proposer/value_{rung}": float(v) for rung, v in self.values().items()}}


class UniformRungs(Rungs):
    """Differs from Rungs in that every rung is as likely as any other. rungs: [8, 9, 10]: the hard ones alone."""

    def weights(self, round: Round, rungs: Sequence[int]) -> Sequence[float]:
        return [1.0] * len(rungs)


DECAY_PROBLEMS = 4
"""Problems of a rung over which its running mean keeps `decay` of the past."""


class BanditRungs(Rungs):
    """Differs from Rungs in that a rung is as likely as (running mean of p(1 - p))^power, and a share `eps` of the
    slots is uniform. p(1 - p) of G answers is taken times G / (G - 1), which makes it unbiased. The mean moves from
    `start` and keeps decay^(n / 4) of the past in a round with n problems of the rung; while all means are 0 every
    rung is as likely."""

    def __init__(
        self,
        rungs: RungList | None = None,
        eps: Share = 0.1,
        power: Amount = 1.0,
        decay: Share = 0.7,
        start: Share = 0.25,
        share: Share = 1.0,
    ) -> None:
        super().__init__(rungs, share)
        self.eps, self.power, self.decay, self.start = eps, power, decay, start
        self.mean: dict[int, float] = {}

    def weights(self, round: Round, rungs: Sequence[int]) -> Sequence[float]:
        if round.group(round.players("prover")[0]) * len(round.players("prover")) < 2:
            raise GameError(
                "bandit_rungs learns from p(1 - p), which is 0 of a single answer to each problem; set the prover's "
                "num_generations to at least 2."
            )
        self.mean = {rung: self.mean.get(rung, self.start) for rung in rungs}
        worth = [self.mean[rung] ** self.power for rung in rungs]
        total = sum(worth)
        if not total:
            return [1.0] * len(rungs)
        return [self.eps / len(rungs) + (1 - self.eps) * one / total for one in worth]

    def hear(self, found: Sequence[Heard], answers: int) -> None:
        for rung in sorted({one.rung for one in found}):
            own = [one.rate for one in found if one.rung == rung]
            kept = self.decay ** (len(own) / DECAY_PROBLEMS)
            variance = sum(p * (1 - p) for p in own) / len(own) * answers / (answers - 1)
            self.mean[rung] = kept * self.mean.get(rung, self.start) + (1 - kept) * variance

    def values(self) -> Mapping[int, float]:
        return self.mean

    def state_dict(self) -> dict[str, Any]:
        return {"mean": {str(rung): value for rung, value in self.mean.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.mean = {int(rung): float(value) for rung, value in state["mean"].items()}


class UniformTexts(Rungs):
    """Differs from Rungs in that the domain draws whole problems, size included, uniformly over what is in range
    (`random_text`), and that nobody asks whether they have a solution: what a conjecturer faces before it has learned
    anything."""

    metrics = RUNGS[:1]

    def __init__(self, share: Share = 1.0) -> None:
        super().__init__(share=share)

    def known(self, domain: Any) -> list[int]:
        if domain.random_text is None or domain.rung is None:
            raise ConfigError(
                f"`proposer` (uniform_texts) draws problems without a solution, and the domain "
                f"{type(domain).__name__} has no `random_text` and `rung` (contract/domain.py); give it "
                "both, or take uniform_rungs."
            )
        return []

    def propose(self, round: Round, anchors: Sequence[Any]) -> list[Proposal]:
        self.known(round.domain)
        slots = self.count(round)
        problems = round.domain.random_text(slots, round.seed("texts"), round.held_out)
        rungs = [round.domain.rung(problem) for problem in problems]
        self.slot_of = list(range(len(problems)))
        self.played = {"proposer/rung_mean": float(np.mean(rungs))} if rungs else {}
        return [Proposal(problem, asked={"rung": rung}) for problem, rung in zip(problems, rungs, strict=True)]
