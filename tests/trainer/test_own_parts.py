"""Parts of a user's own: what does not fit is one sentence, before a model loads where that can be known."""

import pytest
import torch

from countdown_selfplay.countdown import CountdownDomain
from countdown_selfplay.errors import ConfigError, DataError, RewardError
from countdown_selfplay.games.propose_and_solve import ProposeAndSolve
from countdown_selfplay.objectives.base import LossOutput
from countdown_selfplay.objectives.rloo import RLOO
from countdown_selfplay.rewards.tent import Tent

from .conftest import rounds

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
    trainer = build(max_steps=1, trainer={"conjecturer_reward": lambda p: 1 - p})
    trainer.train()
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
        trainer = build(name, max_steps=1, trainer={"reward_funcs": functions})
        trainer.train()
        lines.append(rounds(trainer.args.output_dir)[0]["prover/correct_rate"])
    assert lines[0] == lines[1] > 0
