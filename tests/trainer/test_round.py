# Tests: training/round_loop.py, training/round.py, training/trainer.py, config/roles.py, policies/build.py
"""A round trains every role, nothing else, and each role on its own."""

import json
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from tools.make_tiny_model.figures import held_out_problems

from countdown_selfplay.countdown import generate_problems
from countdown_selfplay.tiny import TINY_MODEL_PATH, TINY_SPEC, load_tiny_model

from .conftest import equal, goes_on, ran, results_of, rounds, weights

LORA = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")


def test_role_gradients_learning_rates_and_clips_are_independent(build):
    """The prover cannot tell what the conjecturer's are; a learning rate of 0 freezes a role bit for bit."""
    updates = []
    for i, changes in enumerate(
        [
            {},
            {"conjecturer_learning_rate": 0.0},
            {"conjecturer_max_grad_norm": 1e-4},
            {"conjecturer_objective": "reinforce", "conjecturer_beta": 0.1, "conjecturer_entropy_coef": 0.5},
        ]
    ):
        trainer = build(f"run{i}", max_steps=1, seed=8, **changes)  # a first round in which both roles have a signal
        start = weights(trainer)
        trainer.train()
        updates.append(weights(trainer))
    same = {
        role: [
            equal(*({k: v for k, v in one.items() if k.startswith(role)} for one in (end, other))) for end in updates
        ]
        for role, other in (("prover", updates[0]), ("conjecturer", start))
    }
    assert same == {"prover": [True] * 4, "conjecturer": [False, True, False, False]}
    assert not equal(updates[0], updates[3]) and not equal(updates[0], start)


def test_a_role_without_signal_is_left_alone_by_momentum_weight_decay_and_kl(build):
    def constant(solve_rate_P, ctx):
        return solve_rate_P * 0 + 0.0  # equal to the invalid reward: every proposal earns the same

    trainer = build(
        trainer={"conjecturer_reward": constant}, conjecturer_beta=0.5, weight_decay=0.1,
        conjecturer_learning_rate=1e-2, max_steps=2,
    )  # fmt: skip
    before = weights(trainer, "conjecturer")
    trainer.train()
    assert equal(before, weights(trainer, "conjecturer"))
    assert all(
        line["conjecturer/signal"] == 0 and line["prover/signal"] == 1 for line in rounds(trainer.args.output_dir)
    )


@pytest.mark.parametrize("sharing", ["full", "lora", "tied"])
def test_the_kl_anchor_is_the_weights_that_were_passed_in(build, sharing):
    """Not a reload from their path: the model object is changed before it is passed, and the first round's KL is
    still 0. On-policy importance weights are exactly one."""
    model, tokenizer = load_tiny_model()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
    extra = {"processing_class": tokenizer, **({"peft_config": LORA} if sharing == "lora" else {})}
    trainer = ran(build(model=model, policy_sharing=sharing, trainer=extra, beta=0.1, max_steps=2))
    first, second = rounds(trainer.args.output_dir)
    for role in ("prover", "conjecturer"):
        assert abs(first[f"{role}/kl"]) < 1e-7 and second[f"{role}/kl"] > 1e-8
        assert first[f"{role}/importance_weight"] == 1.0 and first[f"{role}/importance_clamped"] == 0.0


def test_roles_have_settings_of_their_own_and_the_run_folder_records_them_as_given(build):
    trainer = ran(
        build(
            max_steps=2, prover_learning_rate=1e-3, conjecturer_learning_rate=5e-4, conjecturer_warmup_steps=2,
            conjecturer_temperature=0.7, conjecturer_max_completion_length=8, max_grad_norm=0.7,
            conjecturer_max_grad_norm=0.3,
        )
    )  # fmt: skip
    lines = rounds(trainer.args.output_dir)
    # the prover's schedule is constant; "constant" has no warm-up in transformers, so use what the group started from
    assert [line["lr/prover"] for line in lines] == [1e-3, 1e-3]
    assert lines[0]["lr/conjecturer"] in (5e-4, 0.0)
    assert max(line["conjecturer/completion_length_max"] for line in lines) <= 8
    config = json.loads(Path(trainer.args.output_dir, "run.json").read_text())["config"]
    assert (config["max_grad_norm"], config["conjecturer_max_grad_norm"]) == (0.7, 0.3)
    assert trainer.args.max_grad_norm == 0.7


def rows_of(problems, **columns):
    """A data set of the problems; `columns`: name -> function of a row's index."""
    rows = [{"nums": list(p.numbers), "target": p.target} for p in problems]
    return Dataset.from_list([row | {k: value(i) for k, value in columns.items()} for i, row in enumerate(rows)])


def problems(n):
    return rows_of(generate_problems(n, TINY_SPEC, seed=0, split="heldout"))


def test_the_random_control_plays_new_solver_made_problems_in_half_the_slots(build):
    held_out, anchors = held_out_problems(TINY_SPEC), generate_problems(12, TINY_SPEC, seed=5)
    seen = []
    for folder in ("a", "b"):
        trainer = build(
            folder, max_steps=2, conjecturer_players=0, random_fraction=0.5, samples_per_log=32,
            trainer={"train_dataset": rows_of(anchors), "eval_dataset": rows_of(held_out)},
        )  # fmt: skip
        played = results_of(trainer)
        trainer.train()
        seen.append([[sample["problem"] for sample in result.samples] for result in played])
        assert all(result.metrics["round/random_slots"] == 4 for result in played)  # of 8
    assert seen[0] == seen[1]  # a function of seed and round
    first, second = (set(keys) for keys in seen[0])
    known, forbidden = {p.key for p in anchors}, {p.key for p in held_out}
    assert len(first - known) == 4 and len(second - known) == 4 and first - known != second - known
    assert not (first | second) & forbidden


def test_under_lora_a_base_per_model_is_trained_exported_and_resumed_bit_for_bit(build, tmp_path):
    model, tokenizer = load_tiny_model()
    with torch.no_grad():
        model.get_output_embeddings().weight *= 0.9
    other = str(tmp_path / "other")
    model.save_pretrained(other)
    tokenizer.save_pretrained(other)
    settings = dict(policy_sharing="lora", roles={"conjecturer": {"model": other}}, max_steps=2, beta=0.02)
    straight = build("straight", save_strategy="steps", save_steps=1, **settings)
    start = weights(straight)
    straight.train()
    for name in ("prover", "conjecturer"):
        assert not equal({k: v for k, v in start.items() if k.startswith(name)}, weights(straight, name))
    straight.save_model()
    for role, base in (("prover", str(TINY_MODEL_PATH)), ("conjecturer", other)):
        adapter = json.loads((tmp_path / "straight" / role / "adapter_config.json").read_text())
        assert adapter["base_model_name_or_path"] == base
    goes_on(straight, build("resumed", **settings), 1)


def test_a_conjecturer_with_the_provers_weights_is_one_model_under_full(build):
    trainer = build("shared", max_steps=1, conjecturer_weights="prover")
    assert trainer.policies.weight_names == ("prover",) and len(trainer.policies.module.policies) == 1
    start = weights(trainer)
    trainer.train()
    assert not equal(start, weights(trainer))
