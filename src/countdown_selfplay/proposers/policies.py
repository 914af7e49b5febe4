"""Language models propose: every player of a kind writes problems, and earns what the round found out about them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..contract.game import BaseProposer, Outcome, Proposal
from ..contract.metric import SHARE, Metric, Panel
from ..contract.round import Rollout, Round, Turn
from ..curriculum.admission import examine
from ..errors import ConfigError

REPAIRED = Metric(
    "proposer/repaired_rate",
    "Share of all proposals that were in range and not known to be solvable, and are played with a planted target "
    "(policies with `repair`). In moves nobody asks whether a proposal is solvable: all that are in range.",
    panel=Panel("Repaired proposals", SHARE, "Curriculum", "share"),
)


class Policies(BaseProposer):
    """Allen and Ståblein, section 3.2. Each group of samples is asked for one thing; what the domain asks for takes
    turns.

    repair: a proposal that can be read and is in range, but is not known to be solvable, is played with another
    target, one that a random derivation from its own numbers ends in (`domain.repaired`), and is credited for what
    that earns. Its size and numbers are the player's, solvability is not: whether being trained teaches more than
    solvability is what this arm is for.
    """

    needs: Sequence[str] = ("conjecturer",)
    metrics: Sequence[Metric] = (REPAIRED,)

    def __init__(self, repair: bool = False) -> None:
        self.repair = repair
        self.repaired_rate: float | None = None
        self.rollouts: dict[str, Rollout] = {}
        self.own: dict[str, list[int]] = {}  # which of a player's proposals are this process's

    def check(self, players: Mapping[str, Sequence[str]], domain: Any) -> None:
        """ConfigError for a domain that cannot repair."""
        if self.repair and domain.repaired is None:
            raise ConfigError(
                f"`repair` (true) of policies gives a proposal another target, and the domain {type(domain).__name__} "
                "has no `repaired` (contract/domain.py); leave it out, or play Countdown."
            )

    def asks(self, round: Round, player: str, groups: int, anchors: Sequence[Any]) -> list[Mapping[str, Any]]:
        """What each of the player's groups is asked for: keyword arguments of the domain's `propose_row`."""
        turn = round.domain.asks
        return [turn[(round.index * groups + group) % len(turn)] for group in range(groups)]

    def propose(self, round: Round, anchors: Sequence[Any]) -> list[Proposal]:
        self.rollouts, self.own, self.repaired_rate = {}, {}, None
        found: list[Proposal] = []
        for player in round.players("conjecturer"):
            asks = self.asks(round, player, round.slots("conjecturer") // round.group(player), anchors)
            mine = round.share(range(len(asks)))
            asked = [asks[group] for group in mine]
            rollout = round.sample(player, [round.domain.propose_row(**ask) for ask in asked])
            self.rollouts[player] = rollout
            self.own[player] = [group * rollout.n + i for group in mine for i in range(rollout.n)]
            own = [ask for ask in asked for _ in range(rollout.n)]
            examined = drawn(round, examine(round.domain, rollout.texts, own, player), player)
            if self.repair:
                examined = [
                    _repaired(round, proposal, place)
                    for proposal, place in zip(examined, self.own[player], strict=True)
                ]
            found += round.gather(examined)
        if self.repair and found:
            self.repaired_rate = sum(bool(p.facts.get("repaired")) for p in found) / len(found)
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

    def logged(self) -> dict[str, float]:
        return {} if self.repaired_rate is None else {REPAIRED.name: self.repaired_rate}


def drawn(round: Round, proposals: Sequence[Proposal], by: str) -> list[Proposal]:
    """Where proposals name levels alone (`domain.drawn`), the problems of them that are played; "not_made" where there
    is none. The others as they are."""
    good = [i for i, proposal in enumerate(proposals) if proposal.reason == "ok"]
    if round.domain.drawn is None or not good:
        return list(proposals)
    seed = round.seed("drawn", by, round.rank)
    made = round.domain.drawn([proposals[i].problem for i in good], seed, round.held_out)
    found = dict(zip(good, made, strict=True))
    return [
        proposal
        if i not in found
        else replace(proposal, reason="not_made")
        if found[i] is None
        else replace(proposal, problem=found[i])
        for i, proposal in enumerate(proposals)
    ]


def _repaired(round: Round, proposal: Proposal, place: int) -> Proposal:
    """The proposal, solvable by construction if it was read and in range; "unsolvable" where no derivation is found.
    Its facts are those of what was written. place: among the player's proposals of the round."""
    unknown = proposal.reason in ("ok", "unsolvable") and not proposal.facts.get("solvable", False)
    if proposal.problem is None or not unknown:
        return proposal
    made = round.domain.repaired(proposal.problem, round.seed("repair", proposal.by, place))
    if made is None:
        return replace(proposal, reason="unsolvable")
    return replace(proposal, problem=made, reason="ok", facts={**proposal.facts, "repaired": True})
