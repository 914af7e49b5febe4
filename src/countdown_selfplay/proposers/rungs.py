"""Proposers over the rungs of a domain, without a conjecturer: the domain makes the problems, and the proposer chooses
how many of each rung. They are baselines of a trained conjecturer."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from annotated_types import MinLen

from ..contract.game import BaseProposer, Outcome, Proposal
from ..contract.metric import Metric
from ..contract.round import Round, Turn, from_main
from ..errors import ConfigError, GameError
from ..registry import Amount, Share
from . import unsupported
from .metrics import RUNGS

RungList = Annotated[Sequence[int], MinLen(1)]


class Heard(NamedTuple):
    """Result of a played proposal."""

    slot: int
    """Index among the round's chosen slots."""
    rung: int
    rate: float
    """Share of all provers' answers that are right, whatever `solve_rate_over` is."""


class Rungs(BaseProposer):
    """Base class of rung proposers. A subclass chooses a rung for each slot, `domain.random_of_rung` makes the problem
    (request={"rung": r}), and `hear` receives its solve rate.

    rungs: rungs to play; None: all of the domain. share: share of the slots to fill; anchors take the others. Set the
    game's `anchor_fraction` to 0: with too few slots, admission takes proposals of each rung in turn, and the rungs
    become equally frequent. Draws are seeded by the round: equal on every process and after a resume."""

    needs = ("prover",)
    metrics: Sequence[Metric] = RUNGS
    fills_slots = True

    def __init__(self, rungs: RungList | None = None, share: Share = 1.0) -> None:
        self.rungs, self.share = None if rungs is None else sorted(set(rungs)), share
        self.played: dict[str, float] = {}
        self.slot_of: list[int] = []  # slot of each proposal of the round

    def choose(self, round: Round, rungs: Sequence[int], count: int) -> Sequence[int]:
        """Draw the rung of each of `count` slots by `weights`."""
        weights = np.asarray(self.weights(round, rungs), dtype=float)
        generator = np.random.default_rng(round.seed("rungs"))
        return list(generator.choice(rungs, count, p=weights / weights.sum()).tolist())

    def weights(self, round: Round, rungs: Sequence[int]) -> Sequence[float]:
        """Return the unnormalised probability of each rung."""
        raise NotImplementedError

    def hear(self, heard: Sequence[Heard], answers: int) -> None:
        """Update the state with the played proposals and the number of answers to each."""

    def values(self) -> Mapping[int, float]:
        """Return the current estimates by rung; rungs without an estimate are absent."""
        return {}

    def check(self, players: Mapping[str, Sequence[str]], domain: Any) -> None:
        """Raise ConfigError for a conjecturer, which would be unused, and for a domain without these rungs."""
        if players.get("conjecturer"):
            raise ConfigError(
                f"`proposer` ({type(self).__name__}) needs no conjecturer; set `roles.conjecturer.players` to 0, or "
                "take the proposer policies."
            )
        self.known(domain)

    def known(self, domain: Any) -> list[int]:
        """Return the rungs to play. Raises ConfigError if the domain lacks one of them."""
        if domain.random_of_rung is None:
            lacks = "`rungs`, `rung` and `random_of_rung`"
            raise unsupported(f"`proposer` ({type(self).__name__})", domain, lacks, "take another proposer")
        there = list(domain.rungs)
        outside = [rung for rung in self.rungs or () if rung not in there]
        if outside:
            raise ConfigError(
                f"`rungs` of the proposer lists {', '.join(map(str, outside))}, and the domain's rungs are "
                f"{', '.join(map(str, there))}; list some of those, or widen the domain's range."
            )
        return there if self.rungs is None else list(self.rungs)

    def count(self, round: Round) -> int:
        """Return the number of problems that the proposer makes per round."""
        return int(self.share * round.slots("prover") + 0.5)

    def made(self, round: Round) -> list[tuple[int, Any]]:
        """Return the rung and the problem of each slot; the problem is None if the rung has too few."""
        chosen = self.choose(round, self.known(round.domain), self.count(round))
        rungs = [int(rung) for rung in from_main(round, np.asarray(chosen))]
        problems = {
            rung: iter(round.domain.random_of_rung(count, rung, round.seed("problems", rung), round.held_out))
            for rung, count in sorted(Counter(rungs).items())
        }
        return [(rung, next(problems[rung], None)) for rung in rungs]

    def propose(self, round: Round, anchors: Sequence[Any]) -> list[Proposal]:
        made = self.made(round)
        self.slot_of = [slot for slot, (_, problem) in enumerate(made) if problem is not None]
        found = [made[slot] for slot in self.slot_of]
        self.played = {"proposer/rung_mean": float(np.mean([rung for rung, _ in found]))} if found else {}
        return [Proposal(problem, request={"rung": rung}) for rung, problem in found]

    def learn(self, round: Round, outcome: Outcome) -> list[Turn]:
        rate_P = outcome.correct_MPG.mean((0, 2))
        heard = [
            Heard(slot, proposal.request["rung"], float(rate_P[index]))
            for slot, proposal, index in zip(self.slot_of, outcome.proposals, outcome.problem_of, strict=True)
            if index is not None
        ]
        self.hear(heard, outcome.correct_MPG.shape[0] * outcome.correct_MPG.shape[2])
        return []

    def logged(self) -> dict[str, float]:
        return {**self.played, **{f"proposer/value_{rung}": float(v) for rung, v in self.values().items()}}


class UniformRungs(Rungs):
    """Rungs drawn with equal probabilities. rungs: rungs to play, such as [8, 9, 10] for only the hard ones."""

    def weights(self, round: Round, rungs: Sequence[int]) -> Sequence[float]:
        return [1.0] * len(rungs)


DECAY_PROBLEMS = 4
"""Number of problems of a rung after which the rung's running mean keeps the share `decay` of the past."""


class BanditRungs(Rungs):
    """Rungs with probability proportional to (running mean of p(1 - p))^power, mixed with a uniform share `eps`.
    p(1 - p) of G answers is multiplied by G / (G - 1), which makes it unbiased. The mean begins at `start` and keeps
    decay^(n / 4) of the past in a round with n problems of the rung; while all means are 0, rungs are uniform."""

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
                "bandit_rungs learns from p(1 - p), which is 0 for a single answer; set the prover's num_generations "
                "to at least 2."
            )
        self.mean = {rung: self.mean.get(rung, self.start) for rung in rungs}
        worth = [self.mean[rung] ** self.power for rung in rungs]
        total = sum(worth)
        if not total:
            return [1.0] * len(rungs)
        return [self.eps / len(rungs) + (1 - self.eps) * one / total for one in worth]

    def hear(self, heard: Sequence[Heard], answers: int) -> None:
        for rung in sorted({one.rung for one in heard}):
            rates = [one.rate for one in heard if one.rung == rung]
            kept = self.decay ** (len(rates) / DECAY_PROBLEMS)
            variance = sum(p * (1 - p) for p in rates) / len(rates) * answers / (answers - 1)
            self.mean[rung] = kept * self.mean.get(rung, self.start) + (1 - kept) * variance

    def values(self) -> Mapping[int, float]:
        return self.mean

    def state_dict(self) -> dict[str, Any]:
        return {"mean": {str(rung): value for rung, value in self.mean.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.mean = {int(rung): float(value) for rung, value in state["mean"].items()}


class UniformTexts(Rungs):
    """Problems that the domain draws uniformly from its ranges, size included (`random_text`), solvable or not: a
    baseline for a conjecturer that writes random numbers."""

    metrics = RUNGS[:1]

    def __init__(self, share: Share = 1.0) -> None:
        super().__init__(share=share)

    def known(self, domain: Any) -> list[int]:
        if domain.random_text is None or domain.rung is None:
            raise unsupported("`proposer` (uniform_texts)", domain, "`random_text` and `rung`", "take uniform_rungs")
        return []

    def made(self, round: Round) -> list[tuple[int, Any]]:
        self.known(round.domain)
        problems = round.domain.random_text(self.count(round), round.seed("texts"), round.held_out)
        return [(round.domain.rung(problem), problem) for problem in problems]
