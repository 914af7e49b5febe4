# Tests: config/rules.py, config/run_rules.py, config/ranges.py, config/fields.py, config/settled.py, config/flat.py
"""Every cross-field rule: the message names field, value, rule and cure, before any model is loaded."""

import copy
import os
import pickle

import pytest

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.config.run_rules import check_output
from countdown_selfplay.errors import ConfigError


def config(**changes):
    return JointSelfPlayConfig(output_dir="unused", use_cpu=True, **changes)


def test_a_round_is_the_sum_of_the_roles_micro_batches():
    c = config(per_device_train_batch_size=16, prover_micro_batches=8, conjecturer_micro_batches=1, num_generations=8)
    # seed 001: 16 problems x 8 answers = 128 = 16 x 8, and 16 proposals
    assert c.gradient_accumulation_steps == c.steps_per_generation == 9
    assert c.slots_per_round == 16 and c.anchor_slots == 8


RULES = {
    "groups": (dict(per_device_train_batch_size=8, prover_micro_batches=2, prover_num_generations=6),
               r"`prover_num_generations` \(6\) must divide `per_device_train_batch_size` x `prover_micro_batches` "
               r"\(16\); use 4 or 8"),
    "proposal groups": (dict(per_device_train_batch_size=8, conjecturer_num_generations=3),
               r"`conjecturer_num_generations` \(3\) must divide"),
    "groups of an objective": (dict(per_device_train_batch_size=8, prover_micro_batches=1, num_generations=7,
                   prover_objective="pass_at_k", prover_objective_kwargs={"k": 4}),
               r"`num_generations` \(7\) must divide .* \(8\); use 8, or change the batch"),  # 4 is below k + 1
    "no group": (dict(per_device_train_batch_size=4, prover_micro_batches=1, num_generations=7,
                   prover_objective="pass_at_k", prover_objective_kwargs={"k": 4}),
               r"`num_generations` \(7\) must divide .* \(4\); change the batch\."),
    "groups of two roles": (dict(per_device_train_batch_size=8, prover_micro_batches=3, num_generations=7,
                   conjecturer_num_generations=None),
               r"`num_generations` \(7\) must divide .* \(24\); use 4 or 8, or"),  # 6 would not divide 8
    "no checkpoint": (dict(save_strategy="steps", save_steps=0),
               r"`save_steps` \(0\) would give no checkpoint before the end; set it to 1 or more .*save_strategy=no"),
    "no evaluation": (dict(eval_strategy="steps", eval_steps=0), r"`eval_steps` \(0\) would give no evaluation"),
    "one sample": (dict(prover_num_generations=1),
               r"`prover_num_generations` \(1\) must be at least 2"),
    "accumulation": (dict(gradient_accumulation_steps=4),
               r"`gradient_accumulation_steps` \(4\) is derived as prover_micro_batches \+ conjecturer_micro_batches "
               r"\(9\)"),
    "generation batch": (dict(generation_batch_size=64),
               r"`generation_batch_size` \(64\) cannot be set"),
    "share": (dict(anchor_fraction=1.5),
               r"`anchor_fraction` \(1.5\) must be a finite number of at least 0 and at most 1: a share"),
    "negative lr": (dict(conjecturer_learning_rate=-1e-5),
               r"`conjecturer_learning_rate` \(-1e-05\) must be a finite number of at least 0"),
    "greedy": (dict(conjecturer_temperature=0.0),
               r"`conjecturer_temperature` \(0.0\) must be a finite number above 0"),
    "clamp": (dict(importance_clip_low=2.0),
               r"`importance_clip_low` \(2.0\) .*must satisfy 0 < low <= 1 <= high"),
    "ddp": (dict(ddp_find_unused_parameters=False),
               r"`ddp_find_unused_parameters` \(False\) must be True"),
    "reentrant": (dict(gradient_checkpointing=True, gradient_checkpointing_kwargs={"use_reentrant": True}),
               "must be non-reentrant"),
    "iterations": (dict(num_iterations=2),
               r"`num_iterations` \(2\) must be 1"),
    "one operand count": (dict(operands=3),
               r"`operands` \(3\) must be a list, each entry a whole number"),
    "operands": (dict(operands=[1]),
               r"`operands` \(\[1\]\) must list operand counts from 2 to 6"),
    "range": (dict(target_low=50, target_high=20),
               r"`target_low` \(50\) and `target_high` \(20\) must satisfy"),
    "tied lr": (dict(policy_sharing="tied", conjecturer_learning_rate=1e-7),
               r"must be equal under policy_sharing='tied'"),
    "lora temperature": (dict(policy_sharing="lora", conjecturer_temperature=0.7),
               r"`conjecturer_temperature` \(0.7\) must be equal under policy_sharing='lora'"),
    "reward json": (dict(conjecturer_reward_kwargs="low=1"),
               r"`conjecturer_reward_kwargs` \('low=1'\) must be a JSON object"),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_a_broken_rule_names_field_value_rule_and_cure(name):
    changes, message = RULES[name]
    with pytest.raises(ConfigError, match=message):
        config(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(conjecturer_reward="tnet"), "Unknown conjecturer reward 'tnet'. Did you mean 'tent'"),
        (dict(prover_objective="rlo"), "Unknown objective 'rlo'. Did you mean 'rloo'"),
        (dict(prover_prompt="countdown_3to5"), "Did you mean 'countdown_3to4'"),
    ],
)
def test_an_unknown_name_suggests_the_nearest(changes, message):
    with pytest.raises(KeyError) as error:
        config(**changes)
    assert message in str(error.value)


def test_a_token_survives_copies_but_neither_pickles_nor_prints():
    c = config(hub_token="hf_secret")
    assert copy.copy(c).hub_token == copy.deepcopy(c).hub_token == "hf_secret"
    assert pickle.loads(pickle.dumps(c)).hub_token is None
    assert "hf_secret" not in repr(c) + str(c)


def test_precision_is_decided_by_the_device():
    assert config().bf16 is False
    assert config(bf16=True).bf16 is True


def test_a_resolved_config_can_be_read_again():
    c = config(per_device_train_batch_size=16)
    again = config(
        per_device_train_batch_size=16,
        gradient_accumulation_steps=c.gradient_accumulation_steps,
        steps_per_generation=c.steps_per_generation,
        generation_batch_size=c.generation_batch_size,
    )
    assert again.gradient_accumulation_steps == 9


def test_an_output_folder_that_cannot_be_is_refused_by_a_run_and_not_by_a_config(tmp_path):
    (tmp_path / "file").write_text("")
    args = JointSelfPlayConfig(output_dir=str(tmp_path / "file" / "run"), use_cpu=True)  # another machine's, perhaps
    with pytest.raises(ConfigError, match=r"`output_dir` \(.*/file/run\) must be a folder .*/file is a file"):
        JointConjecturerProverTrainer("no such model", args=args)
    (tmp_path / "locked").mkdir(mode=0o500)
    if not os.access(tmp_path / "locked", os.W_OK):  # root may write anywhere
        with pytest.raises(ConfigError, match="/locked is not writable"):
            check_output(str(tmp_path / "locked" / "run"))
