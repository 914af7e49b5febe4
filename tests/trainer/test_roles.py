# Tests: config/roles.py, policies/build.py, policies/lora.py
"""Real runs under roles that are not one model each with a group of several samples."""

import json

import pytest
import torch

from countdown_selfplay.errors import ConfigError
from countdown_selfplay.tiny import TINY_MODEL_PATH, load_tiny_model

from .conftest import equal, goes_on, weights


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


def test_one_answer_a_problem_is_trained_by_an_objective_without_a_baseline(build):
    trainer = build("one", max_steps=1, prover_num_generations=1, prover_objective="reinforce", prover_temperature=0.5)
    start = weights(trainer, "prover")
    trainer.train()
    assert trainer.args.slots_per_round == 32 and not equal(start, weights(trainer, "prover"))


def test_a_conjecturer_with_the_provers_weights_is_one_model_under_full(build):
    trainer = build("shared", max_steps=1, conjecturer_weights="prover")
    assert trainer.policies.weight_names == ("prover",) and len(trainer.policies.module.policies) == 1
    start = weights(trainer)
    trainer.train()
    assert not equal(start, weights(trainer))


def test_stop_texts_of_a_role_meet_the_tokenizer_before_a_model_loads(build):
    with pytest.raises(
        ConfigError,
        match=r"stop string 'END', of an option or of the prompt style, is a text that generation cannot look for",
    ):
        build("stop", model="no such model", prover_stop="END", trainer={"processing_class": load_tiny_model()[1]})
