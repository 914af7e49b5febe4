"""Parts that lack what a game, proposer, objective or reward must have, or return what does not fit."""

import torch

from countdown_selfplay.contract.game import BaseGame, BaseProposer
from countdown_selfplay.contract.round import RoundResult
from countdown_selfplay.objectives.base import LossOutput
from countdown_selfplay.objectives.rloo import RLOO


class Plain(BaseGame):
    """The prover answers the anchors."""

    roles = {"prover": "answers"}  # noqa: RUF012

    def play(self, round, anchors):
        own = round.share(anchors[: round.slots("prover")])
        rollout = round.sample("prover", [round.domain.prove_row(p) for p in own], problems=own)
        return self.result(round, rollout)

    def result(self, round, rollout):
        return RoundResult([round.credit(rollout)], {})


class Duel(Plain):
    roles = {"prover": "answers", "critic": "judges"}  # noqa: RUF012

    def __init__(self, rounds=1):
        if rounds < 1:
            raise ValueError(f"`rounds` ({rounds}) must be at least 1.")


class Remembers(Plain):
    def __init__(self, state):
        self.state = state

    def state_dict(self):
        return self.state if self.state else self.arms

    def load_state_dict(self, state): ...


class OldTurns(Plain):
    turns = ()

    def result(self, round, rollout):
        old, self.turns = self.turns, [round.credit(rollout)]
        return RoundResult(list(old), {})


def nothing(self, *given): ...


def part(name, base, **members):
    """A class of `base` with other members."""
    return type(name, (base,), members)


NoRoles = part("NoRoles", BaseGame, play=nothing)
EmptyRoles = part("EmptyRoles", NoRoles, roles={})
NoPlay = part("NoPlay", BaseGame, roles=Plain.roles)
Forgetful = part("Forgetful", Plain, load_state_dict=nothing)
Absent = part("Absent", Plain, state_dict=nothing)
Mute = part("Mute", BaseProposer, learn=nothing)
Critical = part("Critical", BaseProposer, needs=("critic",), propose=nothing)
Proposes = part("Proposes", Critical, needs=("conjecturer",))
Bare = part("Bare", object, roles=Plain.roles, play=nothing, propose=nothing)
# a proposer, whose state is part of the game's
Arms = part("Arms", Critical, needs=(), state_dict=lambda self: {"arms": {0: 1.0}}, load_state_dict=nothing)

# rounds that do not fit
Nothing = part("Nothing", Plain, result=nothing)
Rollouts = part("Rollouts", Plain, result=lambda self, round, rollout: RoundResult([rollout], {}))
TooFew = part("TooFew", Plain, result=lambda self, round, rollout: RoundResult([round.credit(rollout, [0.5] * 3)], {}))
Stranger = part(
    "Stranger", Plain,
    result=lambda self, round, rollout: RoundResult([round.credit(round.sample("critic", rollout.rows))], {}),
)  # fmt: skip

# objectives of the wrong shape
Scalar = part("Scalar", RLOO, advantages=lambda self, rewards_PG, correct_PG=None: torch.tensor(1.0))
Infinite = part("Infinite", RLOO, advantages=lambda self, rewards_PG, correct_PG=None: rewards_PG * float("inf"))
SelectsByNumber = part("SelectsByNumber", RLOO, select=lambda self, rewards_PG, correct_PG: rewards_PG)
PerRow = part("PerRow", RLOO, loss=lambda self, given: LossOutput(-given.advantages_B * given.logps_BT.sum(1)))
BareLoss = part("BareLoss", RLOO, loss=lambda self, inputs: RLOO.loss(self, inputs).loss)


def huge(completions, **kwargs):
    return [1e39] * len(completions)


class Explosive:
    def __call__(self, completions, **kwargs):
        return [0.0] * (len(completions) - 1) + [float("inf")]
