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
    assert c.capacity("prover") == 128 and c.capacity("conjecturer") == 16 and c.gradient_accumulation_steps == 1
    assert c.slots_per_round == 16 and c.anchor_slots == 8


def test_a_token_survives_copies_but_neither_pickles_nor_prints():
    c = config(hub_token="hf_secret")
    assert copy.copy(c).hub_token == copy.deepcopy(c).hub_token == "hf_secret"
    assert pickle.loads(pickle.dumps(c)).hub_token is None
    assert "hf_secret" not in repr(c) + str(c)


def test_precision_is_decided_by_the_device():
    assert config().bf16 is False
    assert config(bf16=True).bf16 is True


def test_fp16_of_a_launcher_is_refused_as_that_of_a_setting(monkeypatch):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp16")
    with pytest.raises(ConfigError, match=r"`fp16`.*--mixed_precision bf16"):
        config()


def test_a_resolved_config_can_be_read_again():
    c = config(per_device_train_batch_size=16)
    again = config(
        per_device_train_batch_size=16,
        gradient_accumulation_steps=c.gradient_accumulation_steps,
        steps_per_generation=c.steps_per_generation,
        generation_batch_size=c.generation_batch_size,
    )
    assert again.generation_batch_size == c.generation_batch_size and again.capacity("prover") == 128


def test_an_output_folder_that_cannot_be_is_refused_by_a_run_and_not_by_a_config(tmp_path):
    (tmp_path / "file").write_text("")
    args = JointSelfPlayConfig(output_dir=str(tmp_path / "file" / "run"), use_cpu=True)  # another machine's, perhaps
    with pytest.raises(ConfigError, match=r"`output_dir` \(.*/file/run\) must be a folder .*/file is a file"):
        JointConjecturerProverTrainer("no such model", args=args)
    (tmp_path / "locked").mkdir(mode=0o500)
    if not os.access(tmp_path / "locked", os.W_OK):  # root may write anywhere
        with pytest.raises(ConfigError, match="/locked is not writable"):
            check_output(str(tmp_path / "locked" / "run"))
