# Tests: objectives/base.py, training/losses.py, training/learners.py, config/role_rules.py
"""Every objective in the real loop: it trains, whatever the cut, and its state survives a restart."""

from pathlib import Path

import pytest
import torch

from countdown_selfplay.errors import CheckpointError
from countdown_selfplay.objectives import OBJECTIVES
from countdown_selfplay.objectives.base import BaseObjective, LossOutput, normalise
from countdown_selfplay.rewards.prover.verifier import countdown_reward

from .conftest import After, equal, ran, rounds, weights

# Three objectives need the verifier's bit, which a proposal has not.
PROVER = sorted(OBJECTIVES)
CONJECTURER = [name for name in PROVER if name not in ("expert_iteration", "pass_at_k", "maxrl")]
FOR = {"pass_at_k": '{"k": 2}'}


@pytest.mark.parametrize("name", PROVER)
def test_the_update_does_not_depend_on_the_cut_even_through_a_group(build, name):
    """32 answers in groups of 8 as 2 x 16 and as 8 x 4: a micro-batch of 4 holds half a group. The first round's
    samples are the same; only the order of the sums differs."""
    results, other = [], name if name in CONJECTURER else "rloo"
    for i, size in enumerate((16, 4)):
        trainer = build(
            f"run{i}", max_steps=1, per_device_train_batch_size=size, problems_per_round=4,
            optim="sgd", max_grad_norm=0.0, beta=0.05, num_generations=8,
            entropy_coef=0.01,
            prover_objective=name, prover_objective_kwargs=FOR.get(name), conjecturer_objective=other,
            conjecturer_num_generations=16,
        )  # fmt: skip
        start = weights(trainer)
        trainer.train()
        results.append({key: value - start[key] for key, value in weights(trainer).items()})
        (line,) = rounds(trainer.args.output_dir)
        assert line["prover/signal"] == 1 and line["prover/trained_samples"] > 0
    for role in ("prover", "conjecturer"):
        largest = max(delta.abs().max() for key, delta in results[0].items() if key.startswith(role))
        assert largest > 1e-6, role
    for key in results[0]:
        # updates are differences of float32 weights of size 1, whose spacing is 1.2e-7
        assert torch.allclose(results[0][key], results[1][key], rtol=1e-3, atol=5e-7), key


def test_unselected_samples_have_no_say_at_all(build):
    """An entropy bonus of 1 moves the weights at once; with nothing selected it must not, though no gradient is
    dropped."""
    for tau, moves in ((-10.0, True), (10.0, False)):  # every sample is selected, none is
        trainer = build(
            f"tau{tau}", max_steps=2, prover_objective="rest", prover_objective_kwargs={"tau": tau},
            prover_entropy_coef=1.0, drop_signalless_gradients=False,
        )  # fmt: skip
        before = weights(trainer, "prover")
        trainer.train()
        assert equal(before, weights(trainer, "prover")) != moves
        lines = rounds(trainer.args.output_dir)
        assert all(("prover/entropy" in line) == moves for line in lines)  # absent, not 0
        assert [line["prover/trained_samples"] for line in lines] == ([32.0, 32.0] if moves else [0.0, 0.0])


def test_a_checkpoint_of_another_objective_is_refused(build, two_rounds):
    other = build("other", prover_objective="rest", max_steps=2)
    folder = str(Path(two_rounds.args.output_dir) / "checkpoint-1")
    with pytest.raises(CheckpointError, match=r"prover_objective \(rloo there, rest here\)"):
        other.train(resume_from_checkpoint=folder)
    allowed = build("other", prover_objective="rest", max_steps=2, allow_changed="prover_objective")
    assert allowed.train(resume_from_checkpoint=folder).global_step == 2  # and starts without kept samples
    assert {rows[0].round for rows in allowed.learners["prover"].replay.kept} <= {1}


def test_kl_as_a_reward_penalty_is_zero_in_the_first_round_and_bites_in_the_second(build):
    """In round one the policy is its own reference: penalty 0, the update of a run without KL. Then the rewards are
    lowered by beta x KL and the weights part."""
    ends = {"none": [], "reward": []}
    for name, changes in {"none": {}, "reward": {"beta": 0.5, "kl_in": "reward"}}.items():
        trainer = build(name, max_steps=2, conjecturer_players=0, **changes)
        trainer.add_callback(After(lambda trainer=trainer, seen=ends[name]: seen.append(weights(trainer))))
        trainer.train()
    assert [equal(*pair) for pair in zip(*ends.values(), strict=True)] == [True, False]
    first, second = (line["prover/kl"] for line in rounds(trainer.args.output_dir))
    assert first == 0.0 < second


def test_the_adaptive_entropy_coefficient_rises_below_the_target_and_falls_above_it(build):
    """TRL's rule (Skywork-OR1): + delta after a round with an entropy of at most the target, else - delta."""
    common = dict(max_steps=3, use_adaptive_entropy=True, entropy_coef=0.01, entropy_coef_delta=0.002)
    trainer = ran(build(prover_entropy_target=50.0, conjecturer_entropy_target=0.0, **common))
    lines = rounds(trainer.args.output_dir)
    assert [line["prover/entropy_coef"] for line in lines] == pytest.approx([0.012, 0.014, 0.016])
    assert [line["conjecturer/entropy_coef"] for line in lines] == pytest.approx([0.008, 0.006, 0.004])


def test_an_objective_can_be_an_object_of_the_users_without_the_optional_parts(build):
    """`advantages` and `loss` are all that the base class leaves open."""

    class Plain(BaseObjective):
        normalization = "token"

        def advantages(self, rewards_PG, correct_PG):
            return torch.nan_to_num(rewards_PG) - 0.5

        def loss(self, inputs):
            return LossOutput(normalise(-inputs.advantages_B[:, None] * inputs.logps_BT, inputs, "token"))

    trainer = build(max_steps=1, trainer={"objectives": {"prover": Plain()}})
    before = weights(trainer, "prover")
    trainer.train()
    assert not equal(before, weights(trainer, "prover"))


def test_kept_samples_with_other_reference_log_probs_are_refused(build):
    """They were made with the KL off: a run with the KL on would find none."""
    straight = build("straight", prover_objective="rest", save_strategy="steps", save_steps=1, max_steps=1)
    straight.train()
    other = build("other", prover_objective="rest", beta=0.05, max_steps=2, allow_changed="beta")
    with pytest.raises(CheckpointError, match="keep beta's switch and the temperature"):
        other.train(resume_from_checkpoint=str(Path(straight.args.output_dir) / "checkpoint-1"))


def test_names_are_taken_where_objects_are(build):
    trainer = build(trainer={"objectives": {"prover": "maxrl"}, "conjecturer_reward": "learnability"})
    assert type(trainer.learners["prover"].objective).__name__ == "MaxRL"
    assert type(trainer.game.reward).__name__ == "Learnability"


def test_the_plain_countdown_reward_scores_by_the_runs_rules(build):
    """Bare answers have no tags: under the function's own rules every one of them would score 0."""
    trainer = ran(build(max_steps=1, trainer={"reward_funcs": [countdown_reward]}))
    (line,) = rounds(trainer.args.output_dir)
    assert line["prover/rewards/countdown_reward"] == pytest.approx(line["prover/reward"]) != 0.0
