"""Proposals by language models: every player of a role writes problems, and is rewarded by their outcome."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..contract.game import BaseProposer, Outcome, Proposal
from ..contract.metric import Metric
from ..contract.round import Rollout, Round, Turn
from ..curriculum.admission import examine
from . import unsupported
from .metrics import REPAIRED


class Policies(BaseProposer):
    """Proposals by policies (Allen and Ståblein, section 3.2). Each group of samples answers one request.

    repair: replace the target of a readable proposal in range that is not known to be solvable by the result of a
    random derivation from its numbers (`domain.repaired`), and credit the proposal with the new problem's reward. The
    player then chooses size and numbers only: a control for whether training teaches more than solvability."""

    needs: Sequence[str] = ("conjecturer",)
    metrics: Sequence[Metric] = (REPAIRED,)

    def __init__(self, repair: bool = False) -> None:
        self.repair = repair
        self.repaired_rate: float | None = None
        self.rollouts: dict[str, Rollout] = {}
        self.own: dict[str, list[int]] = {}  # player -> indices, among its proposals, of this process's

    def check(self, players: Mapping[str, Sequence[str]], domain: Any) -> None:
        """Raise ConfigError if `repair` is set and the domain has no `repaired`."""
        if self.repair and domain.repaired is None:
            raise unsupported("`repair` (true) of policies", domain, "`repaired`", "leave it out, or play Countdown")

    def asks(self, round: Round, player: str, groups: int, anchors: Sequence[Any]) -> list[Mapping[str, Any]]:
        """Return one request per group of samples, in order, as keyword arguments of the domain's `propose_row`."""
        turn = round.domain.asks
        return [turn[(round.index * groups + group) % len(turn)] for group in range(groups)]

    def propose(self, round: Round, anchors: Sequence[Any]) -> list[Proposal]:
        self.rollouts, self.own, self.repaired_rate = {}, {}, None
        proposals: list[Proposal] = []
        for player in round.players("conjecturer"):
            asks = self.asks(round, player, round.slots("conjecturer") // round.group(player), anchors)
            mine = round.share(range(len(asks)))
            requests = [asks[group] for group in mine]
            rollout = round.sample(player, [round.domain.propose_row(**ask) for ask in requests])
            self.rollouts[player] = rollout
            self.own[player] = [group * rollout.n + i for group in mine for i in range(rollout.n)]
            repeated = [ask for ask in requests for _ in range(rollout.n)]
            examined = _drawn(round, examine(round.domain, rollout.texts, repeated, player), player)
            if self.repair:
                places = self.own[player]
                examined = [_repaired(round, p, place) for p, place in zip(examined, places, strict=True)]
            proposals += round.gather(examined)
        if self.repair and proposals:
            self.repaired_rate = sum(bool(p.facts.get("repaired")) for p in proposals) / len(proposals)
        return proposals

    def learn(self, round: Round, outcome: Outcome) -> list[Turn]:
        """Credit each player with the rewards of its proposals, in the order of proposing."""
        turns = []
        for player, rollout in self.rollouts.items():
            written = [n for n, proposal in enumerate(outcome.proposals) if proposal.by == player]
            mine = [written[i] for i in self.own[player]]
            kept = None if outcome.trainable_N is None else [bool(outcome.trainable_N[n]) for n in mine]
            turns.append(round.credit(rollout, [outcome.rewards_N[n] for n in mine], kept_B=kept))
        return turns

    def logged(self) -> dict[str, float]:
        return {} if self.repaired_rate is None else {REPAIRED.name: self.repaired_rate}


def _drawn(round: Round, proposals: Sequence[Proposal], by: str) -> list[Proposal]:
    """Return the proposals, each playable one with a problem from `domain.drawn`, if any, or the reason "not_made"."""
    drawn = list(proposals)
    good = [i for i, proposal in enumerate(drawn) if proposal.reason == "ok"]
    if round.domain.drawn is None or not good:
        return drawn
    seed = round.seed("drawn", by, round.rank)
    made = round.domain.drawn([drawn[i].problem for i in good], seed, round.held_out)
    for i, problem in zip(good, made, strict=True):
        change: dict[str, Any] = {"reason": "not_made"} if problem is None else {"problem": problem}
        drawn[i] = replace(drawn[i], **change)
    return drawn


def _repaired(round: Round, proposal: Proposal, place: int) -> Proposal:
    """Return the proposal, with a new target if it is in range and not known to be solvable; "unsolvable" if no target
    is drawn. Facts stay those of the written problem. place: index among the player's proposals."""
    unknown = proposal.reason in ("ok", "unsolvable") and not proposal.facts.get("solvable", False)
    if proposal.problem is None or not unknown:
        return proposal
    made = round.domain.repaired(proposal.problem, round.seed("repair", proposal.by, place))
    if made is None:
        return replace(proposal, reason="unsolvable")
    return replace(proposal, problem=made, reason="ok", facts={**proposal.facts, "repaired": True})
