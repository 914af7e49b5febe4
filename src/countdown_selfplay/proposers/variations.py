"""Variations of problems that the prover solves sometimes (SvS: self-play with variational problem synthesis)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from ..contract.game import Outcome, Proposal
from ..contract.metric import Metric, Panel
from ..contract.round import Round, Turn
from ..countdown import Problem
from ..countdown.domain import CountdownDomain
from ..countdown.moves import solving_moves
from ..countdown.variations import variation
from ..errors import ConfigError
from ..registry import Count, Share
from .rungs import RUNGS, RungList, UniformRungs

TRIES = 8
"""Seeds that are varied for a slot, before it gets a fresh problem."""

VARIATIONS = (
    Metric(
        "proposer/varied_share",
        "Share of the round's proposals that are variations of problems the prover solved; the others are fresh.",
        panel=Panel("Share of variations", (0, 1), "Curriculum", "variations"),
    ),
    Metric(
        "proposer/variation_rate",
        "Mean solve rate of the round's variations.",
        panel=Panel("Solve rate of variations", (0, 1), "Curriculum", "variations"),
    ),
)


class Variations(UniformRungs):
    """Differs from UniformRungs in that a share `varied` of the slots gets variations of seeds, as far as there are
    some: problems that were solved at a rate from `low` to `high`, varied by their right answer. A variation that is
    solved at a rate from `low` to `kept_high` is a seed from then on; of seeds the newest `capacity` are kept.
    Countdown in moves.

    SvS has the policy rewrite the problem from its right answer, keeping the answer; here two numbers of the right
    answer are exchanged (`countdown.variations`), which keeps the target and needs neither a model nor the exact
    solver. The bands are those of the paper: .125 to .5 for seeds, .125 to .625 for variations. Of a variation that is
    in neither band the answers are trained on as those of any problem, where the paper drops them.

    Its state: the seeds with their right answers.
    """

    metrics: Sequence[Metric] = (*RUNGS[:1], *VARIATIONS)

    def __init__(
        self,
        rungs: RungList | None = None,
        varied: Share = 0.5,
        low: Share = 0.125,
        high: Share = 0.5,
        kept_high: Share = 0.625,
        capacity: Count = 128,
        share: Share = 1.0,
    ) -> None:
        super().__init__(rungs, share)
        if not low <= min(high, kept_high):
            raise ValueError(
                f"`low` ({low}) of variations must not exceed `high` ({high}) and `kept_high` ({kept_high})."
            )
        self.varied, self.low, self.high, self.kept_high, self.capacity = varied, low, high, kept_high, capacity
        self.seeds: dict[str, tuple[Problem, str]] = {}
        self.made = 0  # variations of this round

    def check(self, players: Mapping[str, Sequence[str]], domain: Any) -> None:
        super().check(players, domain)
        if not isinstance(domain, CountdownDomain) or domain.answers != "moves":
            raise ConfigError(
                "`proposer` (variations) exchanges moves of right answers of Countdown; set `answers` to moves, or "
                "take the proposer uniform_rungs."
            )

    def room(self, round: Round) -> int:
        return super().room(round) - self.made

    def propose(self, round: Round, anchors: Sequence[Any]) -> list[Proposal]:
        self.made = 0
        variations = self._vary(round, int(self.varied * self.room(round)))
        self.made = len(variations)
        fresh = super().propose(round, anchors)
        self.slot_of = [*range(self.made), *(self.made + slot for slot in self.slot_of)]
        proposals = [*variations, *fresh]
        if proposals:
            rungs = [proposal.asked["rung"] for proposal in proposals]
            self.played = {
                "proposer/rung_mean": sum(rungs) / len(rungs),
                "proposer/varied_share": self.made / len(proposals),
            }
        return proposals

    def learn(self, round: Round, outcome: Outcome) -> list[Turn]:
        rate_P = outcome.correct_MPG.mean((0, 2))
        rates = []
        for proposal, index in zip(outcome.proposals, outcome.problem_of, strict=True):
            if index is None:
                continue
            rate, text, problem = float(rate_P[index]), outcome.solution_P[index], outcome.problems[index]
            varied = "varied" in proposal.asked
            rates += [rate] if varied else []
            if text is not None and self.low <= rate <= (self.kept_high if varied else self.high):
                key = round.domain.key(problem)
                self.seeds.pop(key, None)
                self.seeds[key] = (problem, text)
        self.seeds = dict(list(self.seeds.items())[-self.capacity :])
        if rates:
            self.played["proposer/variation_rate"] = sum(rates) / len(rates)
        return super().learn(round, outcome)

    def _vary(self, round: Round, count: int) -> list[Proposal]:
        """At most `count` distinct variations; the same on every process."""
        domain, draws, found = round.domain, Random(f"variations|{round.seed('variations')}"), dict[str, Proposal]()
        seeds = list(self.seeds.values())
        for _ in range(TRIES * count if seeds else 0):
            problem, text = draws.choice(seeds)
            moves = solving_moves(text, problem, domain.rules, domain.value_high)
            made = moves and variation(problem, moves, domain.spec, domain.value_high, draws)
            if not made:
                continue
            key = domain.key(made)
            if key in found or key in self.seeds or key in round.held_out or domain.is_held_out(made):
                continue
            found[key] = Proposal(made, asked={"rung": domain.rung(made), "varied": True})
            if len(found) == count:
                break
        return list(found.values())

    def state_dict(self) -> dict[str, Any]:
        return {"seeds": [[list(p.numbers), p.target, text] for p, text in self.seeds.values()]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        problems = [(Problem(tuple(numbers), target), text) for numbers, target, text in state["seeds"]]
        self.seeds = {problem.key: (problem, text) for problem, text in problems}
