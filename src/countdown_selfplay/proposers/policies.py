"""Language models propose: every player of a kind writes problems, and earns what the round found out about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..contract.game import Outcome, Proposal
from ..contract.round import Rollout, Round, Turn
from ..contract.stateful import Stateless
from ..curriculum.admission import examine


class Policies(Stateless):
    """Seed 001, section 3.2. Each group of samples is asked for one thing; what the domain asks for takes turns."""

    needs: Sequence[str] = ("conjecturer",)

    def __init__(self) -> None:
        self.rollouts: dict[str, Rollout] = {}
        self.own: dict[str, list[int]] = {}  # which of a player's proposals are this process's

    def asks(self, round: Round, player: str, groups: int, anchors: Sequence[Any]) -> list[Mapping[str, Any]]:
        """What each of the player's groups is asked for: keyword arguments of the domain's `propose_row`."""
        turn = round.domain.asks
        return [turn[(round.index * groups + group) % len(turn)] for group in range(groups)]

    def propose(self, round: Round, anchors: Sequence[Any]) -> list[Proposal]:
        self.rollouts, self.own = {}, {}
        found: list[Proposal] = []
        for player in round.players("conjecturer"):
            asks = self.asks(round, player, round.room(player), anchors)
            mine = round.share(range(len(asks)))
            asked = [asks[group] for group in mine]
            rollout = round.sample(player, [round.domain.propose_row(**ask) for ask in asked])
            self.rollouts[player] = rollout
            self.own[player] = [group * rollout.n + i for group in mine for i in range(rollout.n)]
            own = [ask for ask in asked for _ in range(rollout.n)]
            found += round.gather(examine(round.domain, rollout.texts, own, player))
        return found

    def learn(self, round: Round, outcome: Outcome) -> list[Turn]:
        """Players in the order in which they proposed; each is credited with its own proposals' rewards."""
        turns = []
        for player, rollout in self.rollouts.items():
            written = [n for n, proposal in enumerate(outcome.proposals) if proposal.by == player]
            mine = [written[i] for i in self.own[player]]
            kept = None if outcome.trainable_N is None else [bool(outcome.trainable_N[n]) for n in mine]
            turns.append(round.credit(rollout, [outcome.rewards_N[n] for n in mine], kept_B=kept))
        return turns
