# Tests: rewards/base.py, rewards/__init__.py, training/progress.py
"""Every registered conjecturer reward trains on the tiny model, and those that look back resume bit for bit."""

import math

import pytest
import torch
from transformers import AutoModelForCausalLM

from countdown_selfplay.errors import GameError
from countdown_selfplay.policies.optimization import bare
from countdown_selfplay.rewards import CONJECTURER_REWARDS, make_conjecturer_reward, refused_reward
from countdown_selfplay.tiny import TINY_MODEL_PATH
from countdown_selfplay.training.progress import movement

from ..installed import here
from .conftest import equal, goes_on, make_config, ran, rounds, weights

REWARDS = here(CONJECTURER_REWARDS)
ARGUMENTS = {
    "sum": {"terms": ["tent", {"name": "sgs", "weight": 0.5}]},
    "product": {"factors": ["tent", "learnability"]},
    "clip": {"of": "tent", "low": 0.1, "high": 0.9},
}
TINY_ROUND = dict(
    per_device_train_batch_size=16, conjecturer_num_generations=8,
    max_completion_length=12, anchor_fraction=0.0,
)  # fmt: skip


class Relay:
    """Every registered reward in turn, for a round each: one trainer instead of one per name."""

    def __init__(self, config):
        self.rewards = []
        for name in REWARDS:
            args = config(conjecturer_reward=name, conjecturer_reward_kwargs=ARGUMENTS.get(name))
            self.rewards.append(make_conjecturer_reward(args.conjecturer_reward, args.reward_arguments))

    @property
    def terms(self):  # what they need, the game knows by their parts
        return self.rewards

    def __call__(self, solve_rate_P, ctx):
        self.reward = self.rewards[ctx.round]
        return self.reward(solve_rate_P, ctx)

    def invalid_reward(self, reason):
        return refused_reward(self.reward, reason, 0.0)


def test_every_reward_plays_rounds_and_gives_the_conjecturer_a_signal(build, tmp_path):
    changes = TINY_ROUND | dict(max_steps=len(REWARDS), learning_rate=1e-5)
    relay = Relay(lambda **names: make_config(tmp_path / "names", **changes, **names))
    trainer = build(trainer={"conjecturer_reward": relay}, **changes)
    before = weights(trainer, "conjecturer")
    trainer.train()
    lines = rounds(trainer.args.output_dir)
    assert len(lines) == len(REWARDS)
    assert all(math.isfinite(line["conjecturer/reward"]) for line in lines)
    silent = {name for name, line in zip(REWARDS, lines, strict=True) if not line["conjecturer/signal"]}
    assert not silent
    assert (
        trainer.game.archive.played
        and trainer.game.archive.recent_rates
        and not equal(before, weights(trainer, "conjecturer"))
    )


PAID = dict(
    per_device_train_batch_size=16, conjecturer_num_generations=16, max_completion_length=12, anchor_fraction=0.0,
    conjecturer_reward="learning_progress", learning_rate=1e-4,
)  # fmt: skip


def played(trainer, count=8):
    """A rollout of the prover outside a run, and the round that it belongs to."""
    rows = [dict(trainer.train_dataset[i]) for i in range(count)]
    round = trainer.round_loop.begin(rows)
    problems = [trainer.domain.problem(row, i) for i, row in enumerate(rows)]
    return round, round.sample("prover", [trainer.domain.prove_row(p) for p in problems], 8, problems)


@pytest.mark.parametrize("bf16", [False, True])
def test_progress_is_the_inner_product_of_the_gradient_and_the_step(build, bf16):
    """By autograd, an answer at a time, in float64 sums; the step by Adam's formula with its own moments. A run in
    bf16 measures in float32."""
    trainer = ran(build(**PAID, max_steps=2, bf16=bf16))
    round, rollout = played(trainer)
    before = weights(trainer)
    found = round.progress(rollout)
    assert equal(before, weights(trainer))  # bit for bit
    right = rollout.correct_B > 0
    weighted = round.progress(rollout, torch.where(right, 0.5, 0.0))
    torch.testing.assert_close(weighted, torch.nan_to_num(found) / 2)
    assert right.any() and not right.all()
    assert torch.isfinite(found[right]).all() and torch.isnan(found[~right]).all()
    optimizer = bare(trainer.optimizer)
    step = movement(optimizer, trainer.policies, "prover")
    assert len(step) == len(trainer.policies.named_parameters("prover"))
    group, (parameter, moved) = optimizer.param_groups[0], step[0]
    state = optimizer.state[parameter]
    number = state["step"].item()
    mean = state["exp_avg"] / (1 - group["betas"][0] ** number)
    scale = (state["exp_avg_sq"] / (1 - group["betas"][1] ** number)).sqrt() + group["eps"]
    torch.testing.assert_close(moved, -1e-4 * mean / scale)
    trainer.policies.activate("prover")
    assert trainer.accelerator.native_amp == bf16
    if bf16:  # as accelerate left it to float32
        trainer.accelerator.native_amp, module = False, trainer.policies.module
        module.forward = module._original_forward
    for row in right.nonzero().flatten().tolist()[:4]:
        one = {name: value[row : row + 1] for name, value in rollout.tensors.items()}
        ids = torch.cat([one["prompt_ids"], one["completion_ids"]], 1)
        mask = torch.cat([one["prompt_mask"], one["completion_mask"]], 1)
        logps, *_ = trainer._get_per_token_logps_and_entropies(
            trainer.policies.module, ids, mask, one["completion_ids"].size(1)
        )
        grads = torch.autograd.grad((logps * one["completion_mask"]).sum(), [p for p, _ in step], allow_unused=True)
        expected = sum((g.double() * u).sum() for g, (_, u) in zip(grads, step, strict=True) if g is not None)
        assert found[row].item() == pytest.approx(expected.item(), rel=0.01, abs=2e-4)


def test_a_run_that_is_paid_by_progress_resumes_bit_for_bit(build):
    """The movement comes from the optimizer's moments, which a checkpoint holds. Round 1 has no step before it: there
    all are paid 0, and later rounds pay more than one value."""
    whole = ran(build("whole", **PAID, max_steps=4, save_strategy="steps", save_steps=2))
    goes_on(whole, build("again", **PAID, max_steps=4), 2)
    rewards = [line["conjecturer/reward"] for line in rounds(whole.args.output_dir)]
    assert rewards[0] == 0 and max(rewards[1:]) > 0


def test_an_optimizer_without_moments_ends_the_run_in_its_first_round(build):
    """SGD as an object, which `optim` knows nothing of, keeps no state: all would be paid 0."""
    model = AutoModelForCausalLM.from_pretrained(str(TINY_MODEL_PATH))
    trainer = build(model=model, **PAID, max_steps=2, policy_sharing="tied")
    group = {"params": [p for p in trainer.policies.module.parameters() if p.requires_grad], "role": "prover"}
    trainer.optimizer = torch.optim.SGD([group], lr=1e-4)
    with pytest.raises(GameError, match="follows Adam's moments, which SGD does not keep"):
        trainer.round_loop.play([dict(trainer.train_dataset[i]) for i in range(8)])
