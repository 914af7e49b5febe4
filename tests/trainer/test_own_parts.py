# Tests: training/parts.py, contract/game.py, registry.py
"""Parts of a user's own: what does not fit is one sentence, before a model loads where that can be known."""

import pytest
import torch

from countdown_selfplay.contract.game import BaseGame, BaseProposer
from countdown_selfplay.contract.round import RoundResult
from countdown_selfplay.countdown import CountdownDomain
from countdown_selfplay.errors import ConfigError, DataError, GameError, RewardError
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve
from countdown_selfplay.objectives.base import LossOutput
from countdown_selfplay.objectives.rloo import RLOO
from countdown_selfplay.rewards.tent import Tent

from .conftest import ran, rounds

NO_MODEL = "no/such/model"  # what is refused before a model loads never looks for it


@pytest.mark.parametrize(
    "extra, message",
    [
        ({"objectives": {"prover": RLOO}}, r"`objectives\['prover'\]` is the class RLOO; pass an object of it"),
        ({"objectives": RLOO()}, "must be a dict with an objective per role: prover, conjecturer"),
        ({"conjecturer_reward": Tent}, "conjecturer reward Tent is a class; pass an object of it, such as Tent()"),
        ({"conjecturer_reward": lambda: 1.0}, r"must be callable as \(solve_rate_P, ctx\) or as \(solve_rate_P\)"),
        ({"conjecturer_reward": lambda p, ctx, more: p}, r"must be callable as"),
        ({"game": ProposeAndSolve}, "`game` is the class ProposeAndSolve"),
        ({"domain": CountdownDomain}, "`domain` is the class CountdownDomain"),
        ({"reward_funcs": [Tent]}, "`reward_funcs` is the class Tent"),
        ({"reward_funcs": [1.0]}, "`reward_funcs` holds 1.0"),
    ],
)
def test_what_is_no_part_is_refused_before_a_model_loads(build, extra, message):
    with pytest.raises(ConfigError, match=message):
        build(model=NO_MODEL, trainer=extra)


def test_a_plain_function_of_the_solve_rate_trains_the_conjecturer(build):
    trainer = ran(build(max_steps=1, trainer={"conjecturer_reward": lambda p: 1 - p}))
    assert rounds(trainer.args.output_dir)[0]["conjecturer/signal"] == 1


def test_a_conjecturer_reward_that_returns_no_numbers_is_named(build):
    with pytest.raises(RewardError, match="'<lambda>' returned 'x'; it must return one number per problem"):
        build(max_steps=1, trainer={"conjecturer_reward": lambda p: "x"}).train()


@pytest.mark.parametrize(
    ("sharing", "found"),
    [("lora", r"saved/prover and .*saved/conjecturer"), ("tied", r"its policies lie in .*saved/policy\.")],
)
def test_a_folder_of_saved_policies_passed_as_a_model_names_them(build, tmp_path, sharing, found):
    build(max_steps=1, policy_sharing=sharing).save_model(str(tmp_path / "saved"))
    with pytest.raises(DataError, match=found):
        build(model=str(tmp_path / "saved"))


class NoRoles(BaseGame):
    def play(self, round, anchors): ...


class Plain(BaseGame):
    """The prover answers the anchors."""

    roles = {"prover": "answers"}  # noqa: RUF012

    def play(self, round, anchors):
        own = round.share(anchors[: round.room("prover")])
        rollout = round.sample("prover", [round.domain.prove_row(p) for p in own], problems=own)
        return self.result(round, rollout)

    def result(self, round, rollout):
        return RoundResult([round.credit(rollout)], {})


class NoPlay(BaseGame):
    roles = Plain.roles


class Forgetful(Plain):
    def load_state_dict(self, state): ...


class Proposes(BaseProposer):
    needs = ("conjecturer",)

    def propose(self, round, anchors): ...

    def learn(self, round, outcome): ...


@pytest.mark.parametrize(
    "game, changes, message",
    [
        (NoRoles(), {}, r"`game` \(NoRoles\) must have `roles`, a dict from each kind of role.*; it has \{\}"),
        (NoPlay(), {}, r"`game` \(NoPlay\) must have a method `play`"),
        (Plain, {}, r"`game` is the class Plain; pass an object of it, such as Plain\(\)"),
        (Forgetful(), {}, r"`game` \(Forgetful\) has no method `state_dict`, so that its state would be in no"),
        (ProposeAndSolve(Proposes), {}, r"`proposer` is the class Proposes; pass an object"),
        (ProposeAndSolve(RLOO()), {}, r"`proposer` of the game \(RLOO\) must be derived from BaseProposer"),
        (
            ProposeAndSolve(Proposes()),
            {"conjecturer_num_generations": None, "conjecturer_micro_batches": 0},
            r"`proposer` of the game \(Proposes\) needs a conjecturer, and this run has none",
        ),
        (Plain(), {"roles": {"critic": {}}}, r"`roles.critic` \(.*\) is of a role that the game does not have"),
    ],
)
def test_a_game_that_cannot_be_played_is_refused_before_a_model_loads(build, game, changes, message):
    own = {} if isinstance(game, ProposeAndSolve) else {"game": None, "conjecturer_num_generations": None}
    if not isinstance(game, ProposeAndSolve):
        own |= {"conjecturer_micro_batches": None}
    with pytest.raises(ConfigError, match=message):
        build(model=NO_MODEL, trainer={"game": game}, **own | changes)


class Remembers(Plain):
    def __init__(self, state):
        self.state = state

    def state_dict(self):
        return self.state if self.state else self.arms

    def load_state_dict(self, state): ...


class Arms(Proposes):
    """A proposer, whose state is part of the game's."""

    needs = ()

    def state_dict(self):
        return {"arms": {0: 1.0}}

    def load_state_dict(self, state): ...


@pytest.mark.parametrize(
    "part, message",
    [
        (Remembers({"count": {2: 1}}), r"The state of game/count is '\{2: 1\}' of type dict; .* dicts with text keys"),
        (Remembers({"set": {1}}), r"The state of game/set is '\{1\}' of type set"),
        (Remembers({}), r"`state_dict` of Remembers raised AttributeError: .* no attribute 'arms'; it must have an"),
        (ProposeAndSolve(Arms()), r"The state of game/proposer/arms is '\{0: 1.0\}' of type dict"),
    ],
)
def test_a_state_that_no_checkpoint_can_hold_is_refused_before_a_model_loads(build, part, message):
    own = {} if isinstance(part, ProposeAndSolve) else {"game": None, "conjecturer_micro_batches": None}
    if own:
        own["conjecturer_num_generations"] = None
    with pytest.raises(GameError, match=message):
        build(model=NO_MODEL, trainer={"game": part}, **own)


def test_a_conjecturer_reward_beside_a_game_of_ones_own_is_refused(build):
    with pytest.raises(ConfigError, match=r"`conjecturer_reward` \('tent'\) is not read by a game of your own; give"):
        build(model=NO_MODEL, trainer={"game": ProposeAndSolve(), "conjecturer_reward": "tent"})


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


class Boundless(Plain):
    def result(self, round, rollout):
        return RoundResult([round.credit(rollout, [float("inf")] + [0.0] * (len(rollout.texts) - 1))], {})


class Stranger(Plain):
    def result(self, round, rollout):
        return RoundResult([round.credit(round.sample("critic", rollout.rows))], {})


class Odd(Plain):
    def state_dict(self):
        return {"seen": {1, 2}}

    def load_state_dict(self, state): ...


@pytest.mark.parametrize(
    "game, error, message",
    [
        (
            Nothing,
            GameError,
            "`play` of Nothing returned a NoneType; it must return a RoundResult whose turns are what",
        ),
        (Rollouts, GameError, "`play` of Rollouts returned a Rollout; it must return a RoundResult whose turns are"),
        (
            OldTurns,
            GameError,
            r"a turn of the prover that was not sampled in this round \(1\); return what round.credit",
        ),
        (TooFew, RewardError, r"credits the prover with rewards of shape \(3,\) for 32 samples; pass one per sample"),
        (Boundless, RewardError, "reward of the prover's sample 0 is inf; a reward must be a finite number, or NaN"),
        (Stranger, GameError, "The game asks for the player 'critic'; the players of this run are prover"),
        (Odd, GameError, r"The state of game/seen is '\{1, 2\}' of type set; `state_dict` must return None, numbers"),
    ],
)
def test_a_round_that_does_not_fit_is_one_sentence(build, game, error, message):
    own = dict(game=None, conjecturer_micro_batches=None, conjecturer_num_generations=None)
    saving = dict(save_strategy="steps", save_steps=1)
    with pytest.raises(error, match=message):
        build(max_steps=2, trainer={"game": game()}, **own, **saving).train()


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


class Bare(RLOO):
    def loss(self, inputs):
        return super().loss(inputs).loss


@pytest.mark.parametrize(
    "objective, message",
    [  # the prover's 32 answers: 8 problems of 4
        (Scalar, r"one finite number per sample, shape \(8, 4\), and returned \(\)"),
        (Infinite, r"one finite number per sample, shape \(8, 4\); NaN or infinity is among them"),
        (SelectsByNumber, r"`select` of the prover's objective must return a tensor of one bool per sample"),
        (PerRow, r"`loss` of the objective PerRow must return a LossOutput with a loss of shape \(\)"),
        (Bare, "and returned Tensor"),
    ],
)
def test_an_objective_of_the_wrong_shape_is_refused_and_not_spread_over_the_round(build, objective, message):
    trainer = build(max_steps=1, trainer={"objectives": {"prover": objective()}})
    with pytest.raises(ConfigError, match=message):
        trainer.train()


def test_a_reward_that_float32_cannot_hold_is_refused_before_advantages_are_computed(build):
    def huge(completions, **kwargs):
        return [1e39] * len(completions)

    trainer = build(max_steps=1, trainer={"reward_funcs": (huge,)})
    with pytest.raises(RewardError, match=r"'huge' returned 1e\+39 for row 0"):
        trainer.train()


def test_a_reward_function_that_writes_into_the_completions_changes_no_verdict(build):
    def spoil(completions, **kwargs):
        for i in range(len(completions)):
            completions[i] = "1 + 1"
        return [0.0] * len(completions)

    lines = []
    for name, functions in (("plain", [lambda completions, **kwargs: [0.0] * len(completions)]), ("spoilt", [spoil])):
        trainer = ran(build(name, max_steps=1, trainer={"reward_funcs": functions}))
        lines.append(rounds(trainer.args.output_dir)[0]["prover/correct_rate"])
    assert lines[0] == lines[1] > 0
