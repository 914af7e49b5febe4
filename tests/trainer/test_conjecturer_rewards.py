# Tests: rewards/factory.py
"""Every registered conjecturer reward trains on the tiny model, and those that look back resume bit for bit."""

import math

from countdown_selfplay.rewards import CONJECTURER_REWARDS, make_conjecturer_reward, refused_reward

from .conftest import equal, goes_on, make_config, ran, rounds, weights

ARGUMENTS = {
    "sum": {"terms": ["tent", {"name": "r_zero", "weight": 0.5}]},
    "product": {"factors": ["tent", "disagreement"]},
    "clip": {"of": "tent", "low": 0.1, "high": 0.9},
}
TINY_ROUND = dict(
    per_device_train_batch_size=16, conjecturer_num_generations=8,
    conjecturer_micro_batches=1, max_completion_length=12, anchor_fraction=0.0,
)  # fmt: skip


class Relay:
    """Every registered reward in turn, for a round each: one trainer instead of one per name."""

    def __init__(self, config):
        self.rewards = []
        for name in CONJECTURER_REWARDS:
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
    changes = TINY_ROUND | dict(max_steps=len(CONJECTURER_REWARDS), learning_rate=1e-5)
    relay = Relay(lambda **names: make_config(tmp_path / "names", **changes, **names))
    trainer = build(trainer={"conjecturer_reward": relay}, **changes)
    before = weights(trainer, "conjecturer")
    trainer.train()
    lines = rounds(trainer.args.output_dir)
    assert len(lines) == len(CONJECTURER_REWARDS)
    assert all(math.isfinite(line["conjecturer/reward"]) for line in lines)
    silent = {name for name, line in zip(CONJECTURER_REWARDS, lines, strict=True) if not line["conjecturer/signal"]}
    assert silent <= set(), silent
    assert (
        trainer.game.archive.played
        and trainer.game.archive.recent_rates
        and not equal(before, weights(trainer, "conjecturer"))
    )


def test_rewards_that_look_back_resume_bit_for_bit(build):
    changes = TINY_ROUND | dict(
        max_steps=4, save_strategy="steps", save_steps=2, conjecturer_reward="sum", soft_overlong=0.5,
        conjecturer_reward_kwargs={"terms": ["adaptive_band", "difficulty_diversity", "solvability_aware"]},
    )  # fmt: skip
    straight = ran(build("straight", **changes))
    resumed = goes_on(straight, build("resumed", **changes), 2)
    assert "prover/rewards/soft_overlong" in rounds(resumed.args.output_dir)[0]
