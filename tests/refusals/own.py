"""Parts that lack what a game, proposer or objective must have."""

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


class NoRoles(BaseGame):
    def play(self, round, anchors): ...


class EmptyRoles(NoRoles):
    roles = {}  # noqa: RUF012


class NoPlay(BaseGame):
    roles = Plain.roles


class Forgetful(Plain):
    def load_state_dict(self, state): ...


class Absent(Plain):
    def state_dict(self): ...


class Mute(BaseProposer):
    def learn(self, round, outcome): ...


class Critical(BaseProposer):
    needs = ("critic",)

    def propose(self, round, anchors): ...


class Proposes(Critical):
    needs = ("conjecturer",)


class Bare:
    roles = Plain.roles

    def play(self, round, anchors): ...

    def propose(self, round, anchors): ...


class Remembers(Plain):
    def __init__(self, state):
        self.state = state

    def state_dict(self):
        return self.state if self.state else self.arms

    def load_state_dict(self, state): ...


class Arms(Critical):
    """A proposer, whose state is part of the game's."""

    needs = ()

    def state_dict(self):
        return {"arms": {0: 1.0}}

    def load_state_dict(self, state): ...


# rounds that do not fit


class Nothing(Plain):
    def result(self, round, rollout):
        return None


class Rollouts(Plain):
    def result(self, round, rollout):
        return RoundResult([rollout], {})


class OldTurns(Plain):
    turns = ()

    def result(self, round, rollout):
        old, self.turns = self.turns, [round.credit(rollout)]
        return RoundResult(list(old), {})


class TooFew(Plain):
    def result(self, round, rollout):
        return RoundResult([round.credit(rollout, [0.5] * 3)], {})


class Stranger(Plain):
    def result(self, round, rollout):
        return RoundResult([round.credit(round.sample("critic", rollout.rows))], {})


# objectives of the wrong shape


class Scalar(RLOO):
    def advantages(self, rewards_PG, correct_PG=None):
        return torch.tensor(1.0)


class Infinite(RLOO):
    def advantages(self, rewards_PG, correct_PG=None):
        return rewards_PG * float("inf")


class SelectsByNumber(RLOO):
    def select(self, rewards_PG, correct_PG):
        return rewards_PG


class PerRow(RLOO):
    def loss(self, inputs):
        return LossOutput(-inputs.advantages_B * inputs.logps_BT.sum(1))


class BareLoss(RLOO):
    def loss(self, inputs):
        return super().loss(inputs).loss


# rewards


def huge(completions, **kwargs):
    return [1e39] * len(completions)


class Explosive:
    def __call__(self, completions, **kwargs):
        return [0.0] * (len(completions) - 1) + [float("inf")]
