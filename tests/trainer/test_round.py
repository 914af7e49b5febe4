# Tests: training/round_player.py, training/round.py, training/trainer.py
"""A round trains every role, nothing else, and each role on its own."""

import math

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from tools.make_tiny_model.figures import held_out_problems

from countdown_selfplay.countdown import generate_problems
from countdown_selfplay.errors import ConfigError, RewardError
from countdown_selfplay.tiny import TINY_SPEC

from .conftest import equal, make_config, ran, rounds, weights

LORA = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")


@pytest.mark.parametrize("sharing", ["full", "lora", "tied"])
def test_every_trained_role_moves_and_nothing_frozen_does(build, sharing):
    trainer = build(policy_sharing=sharing, trainer={"peft_config": LORA} if sharing == "lora" else {}, max_steps=3)
    before = weights(trainer)
    trainable = {id(p) for n in trainer.policies.weight_names for _, p in trainer.policies.named_parameters(n)}
    frozen = {n: p.detach().clone() for n, p in trainer.model.named_parameters() if id(p) not in trainable}
    trainer.train()
    after = weights(trainer)
    moved = {key for key in before if not torch.equal(before[key], after[key])}
    # q and k biases can have a zero gradient in float32; every policy must move in nearly all of its tensors
    for name in trainer.policies.weight_names:
        own = [key for key in before if key.startswith(f"{name}:")]
        assert len(moved & set(own)) >= 0.9 * len(own), f"{name}: {len(moved & set(own))} of {len(own)} tensors moved"
    assert len(frozen) == (0 if sharing != "lora" else len(frozen)) and bool(frozen) == (sharing == "lora")
    for name, parameter in trainer.model.named_parameters():
        if name in frozen:
            assert torch.equal(parameter, frozen[name]), name


def test_a_frozen_conjecturer_leaves_the_provers_first_update_as_it_was(build):
    """Role gradients, learning rates and clips are independent: the prover cannot tell what the conjecturer's are."""
    updates = []
    for i, changes in enumerate(
        [
            {},
            {"conjecturer_learning_rate": 0.0},
            {"conjecturer_max_grad_norm": 1e-4},
            {"conjecturer_objective": "reinforce", "conjecturer_beta": 0.1, "conjecturer_entropy_coef": 0.5},
        ]
    ):
        trainer = ran(
            build(f"run{i}", max_steps=1, seed=8, **changes)
        )  # a first round in which both roles have a signal
        updates.append((weights(trainer, "prover"), weights(trainer, "conjecturer")))
    for prover, _ in updates[1:]:
        assert equal(prover, updates[0][0])
    conjecturers = [c for _, c in updates]
    assert not equal(conjecturers[0], conjecturers[1]) and not equal(conjecturers[0], conjecturers[3])


def test_a_learning_rate_of_zero_freezes_a_role_bit_for_bit(build):
    trainer = build(conjecturer_learning_rate=0.0, max_steps=2)
    before = weights(trainer, "conjecturer")
    trainer.train()
    assert equal(before, weights(trainer, "conjecturer"))


def test_the_update_does_not_depend_on_the_split_into_micro_batches(build):
    """32 answers and 16 proposals as 2 x 16 + 1 x 16 and as 8 x 4 + 4 x 4: the same samples, sums in another order."""
    results = []
    for i, (size, prover, conjecturer) in enumerate([(16, 2, 1), (4, 8, 4)]):
        trainer = build(
            f"run{i}", max_steps=1, per_device_train_batch_size=size, prover_micro_batches=prover,
            conjecturer_micro_batches=conjecturer, optim="sgd", max_grad_norm=0.0, beta=0.05, entropy_coef=0.01,
        )  # fmt: skip
        start = weights(trainer)
        trainer.train()
        results.append({key: value - start[key] for key, value in weights(trainer).items()})
    largest = max(delta.abs().max() for delta in results[0].values())
    assert largest > 1e-5
    for key in results[0]:
        # updates are differences of float32 weights of size 1, whose spacing is 1.2e-7
        assert torch.allclose(results[0][key], results[1][key], rtol=1e-3, atol=5e-7), key


def test_a_role_without_signal_is_left_alone_by_momentum_weight_decay_and_kl(build):
    def constant(solve_rate_P, ctx):
        return solve_rate_P * 0 + 0.0  # equal to the invalid reward: every proposal earns the same

    trainer = build(
        trainer={"conjecturer_reward": constant},
        conjecturer_beta=0.5,
        weight_decay=0.1,
        conjecturer_learning_rate=1e-2,
    )
    before = weights(trainer, "conjecturer")
    trainer.train()
    assert equal(before, weights(trainer, "conjecturer"))
    assert all(
        line["conjecturer/signal"] == 0 and line["prover/signal"] == 1 for line in rounds(trainer.args.output_dir)
    )


def test_without_a_conjecturer_the_round_is_plain_rl_on_the_anchors(build):
    trainer = ran(build(conjecturer_micro_batches=0))
    line = rounds(trainer.args.output_dir)[-1]
    assert line["round/anchor_slots"] == 8 and "round/starved" not in line  # 16 x 2 / 4 = 8 problems
    assert not any(name.startswith("conjecturer/") for name in line)


def test_the_kl_anchor_is_the_weights_that_were_passed_in(build):
    """Not a reload from their path: the model object is changed before it is passed, and the first round's KL is
    still 0."""
    from countdown_selfplay.tiny import load_tiny_model

    model, tokenizer = load_tiny_model()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    trainer = ran(build(model=model, trainer={"processing_class": tokenizer}, beta=0.1, max_steps=2))
    first, second = rounds(trainer.args.output_dir)[:2]
    for role in ("prover", "conjecturer"):
        assert abs(first[f"{role}/kl"]) < 1e-7 and second[f"{role}/kl"] > 1e-6


@pytest.mark.parametrize("sharing", ["lora", "tied"])
def test_the_kl_anchor_holds_for_shared_weights_too(build, sharing):
    trainer = ran(
        build(
            policy_sharing=sharing, trainer={"peft_config": LORA} if sharing == "lora" else {}, beta=0.1, max_steps=3
        )
    )
    lines = rounds(trainer.args.output_dir)
    assert abs(lines[0]["prover/kl"]) < 1e-7 and lines[2]["prover/kl"] > 1e-8


def test_on_policy_importance_weights_are_exactly_one(build):
    trainer = ran(build(max_steps=1))
    line = rounds(trainer.args.output_dir)[0]
    assert line["prover/importance_weight"] == 1.0 and line["conjecturer/importance_clamped"] == 0.0


def test_an_infinite_reward_names_the_function_and_the_row(build):
    def explosive(completions, **kwargs):
        return [0.0] * (len(completions) - 1) + [math.inf]

    with pytest.raises(RewardError, match=r"'explosive' returned inf for row 31"):
        build(trainer={"reward_funcs": explosive}).train()


def test_roles_can_have_settings_of_their_own(build):
    trainer = ran(build(
        max_steps=2, prover_learning_rate=1e-3, conjecturer_learning_rate=5e-4, conjecturer_warmup_steps=2,
        conjecturer_temperature=0.7, conjecturer_max_completion_length=8,
    ))  # fmt: skip
    lines = rounds(trainer.args.output_dir)
    # the prover's schedule is constant; "constant" has no warm-up in transformers, so use what the group started from
    assert [line["lr/prover"] for line in lines] == [1e-3, 1e-3]
    assert lines[0]["lr/conjecturer"] in (5e-4, 0.0)
    assert max(line["conjecturer/completion_length_max"] for line in lines) <= 8


def test_the_run_folder_records_the_settings_as_they_were_given(build):
    import json
    from pathlib import Path

    trainer = ran(build(max_steps=1, max_grad_norm=0.7, conjecturer_max_grad_norm=0.3))
    config = json.loads(Path(trainer.args.output_dir, "run.json").read_text())["config"]
    assert (config["max_grad_norm"], config["conjecturer_max_grad_norm"]) == (0.7, 0.3)
    assert trainer.args.max_grad_norm == 0.7


def problems(n):
    from datasets import Dataset

    from countdown_selfplay.countdown import generate_problems
    from countdown_selfplay.tiny import TINY_SPEC

    found = generate_problems(n, TINY_SPEC, seed=0, split="heldout")
    return Dataset.from_list([{"nums": list(p.numbers), "target": p.target} for p in found])


def test_the_random_control_plays_new_solver_made_problems_in_half_the_slots(build):
    held_out = Dataset.from_list([{"nums": list(p.numbers), "target": p.target} for p in held_out_problems(TINY_SPEC)])
    anchors = generate_problems(12, TINY_SPEC, seed=5)
    rows = Dataset.from_list([{"nums": list(p.numbers), "target": p.target} for p in anchors])
    seen = []
    for folder in ("a", "b"):
        trainer = build(
            folder, max_steps=2, conjecturer_micro_batches=0, random_fraction=0.5, samples_per_log=32,
            trainer={"train_dataset": rows, "eval_dataset": held_out},
        )  # fmt: skip
        played, play = [], trainer.game.play
        trainer.game.play = lambda round, anchors, play=play, played=played: (
            played.append(play(round, anchors)) or played[-1]
        )
        trainer.train()
        seen.append([[sample["problem"] for sample in result.samples] for result in played])
        assert all(result.metrics["round/random_slots"] == 4 for result in played)  # of 32 / 4 = 8 slots
    assert seen[0] == seen[1]  # a function of seed and round
    first, second = (set(keys) for keys in seen[0])
    known, forbidden = {p.key for p in anchors}, {p.key for p in held_out_problems(TINY_SPEC)}
    assert len(first - known) == 4 and len(second - known) == 4 and first - known != second - known
    assert not (first | second) & forbidden


def test_random_problems_are_refused_beside_a_conjecturer(tmp_path):
    with pytest.raises(ConfigError, match="is for runs without a conjecturer"):
        make_config(tmp_path, random_fraction=0.5)
