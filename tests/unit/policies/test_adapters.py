# Tests: policies/adapters.py, policies/build.py, policies/lora.py
"""Adapters as the model of a run: merged into their base wherever they come from; and which ones a run can train."""

import json

import pytest
import torch
from peft import IA3Config, LoraConfig, get_peft_model
from tests.joint_config import joint_config
from transformers import AutoModelForCausalLM

from countdown_selfplay.data.run_files import BASE
from countdown_selfplay.errors import DataError
from countdown_selfplay.policies import build_policies
from countdown_selfplay.policies.adapters import as_named, base_of, config_of
from countdown_selfplay.policies.build import load_pretrained, load_tokenizer, read_tokenizer
from countdown_selfplay.tiny import LADDER_ASKED_PATH, TINY_MODEL_PATH, load_tiny_model

TINY = str(TINY_MODEL_PATH)
IDS = torch.tensor([[1, 5, 9, 4]])
TASK = dict(task_type="CAUSAL_LM")
LORA = dict(r=4, target_modules=["q_proj"], **TASK)
ROLES = joint_config("unused", use_cpu=True, prover_prompt="compact", conjecturer_prompt="compact").all_roles


@torch.no_grad()
def logits(model):
    return model.eval()(input_ids=IDS).logits


def adapted(config=None):
    """The tiny model under an adapter that changes what it says."""
    torch.manual_seed(0)
    model = get_peft_model(load_tiny_model()[0], config or LoraConfig(**LORA))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter += 0.1 * torch.randn_like(parameter)
    return model


@pytest.fixture
def folder(tmp_path):
    adapted().save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter"


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("config", [
    LoraConfig(**LORA),
    LoraConfig(**LORA | {"use_dora": True}),
    LoraConfig(**LORA | {"target_modules": ["q_proj", "lm_head"]}),  # which is tied to the embeddings
    LoraConfig(**LORA, modules_to_save=["embed_tokens"]),
    IA3Config(target_modules=["q_proj", "down_proj"], feedforward_modules=["down_proj"], **TASK),
], ids=["lora", "dora", "head", "embeddings", "ia3"])  # fmt: skip
def test_a_folder_of_an_adapter_is_its_base_with_it_and_stays_so_when_it_is_saved(config, tmp_path):
    model = adapted(config)
    assert (logits(model) - logits(load_tiny_model()[0])).abs().max() > 0.1
    model.save_pretrained(tmp_path / "adapter")
    found = load_pretrained(str(tmp_path / "adapter"), {"dtype": "float32"})
    close(logits(found), logits(model))
    assert all(p.requires_grad for p in found.parameters())
    found.save_pretrained(tmp_path / "whole")
    close(logits(AutoModelForCausalLM.from_pretrained(tmp_path / "whole")), logits(model))


def test_sixteen_bits_are_for_who_asks_for_them(folder):
    assert load_pretrained(str(folder), {"dtype": "auto"}).dtype == torch.float32
    assert load_pretrained(str(folder), {"dtype": "bfloat16"}).dtype == torch.bfloat16


@pytest.mark.parametrize(("source", "sharing"), [
    ("folder", "full"), ("folder", "lora"), ("folder", "tied"), ("of PEFT", "full"), ("of Transformers", "lora"),
])  # fmt: skip
def test_every_role_starts_from_the_adapter(sharing, source, folder):
    """One object for both roles is merged once, and copied for the second."""
    expected = logits(adapted())
    given = {"folder": lambda: str(folder), "of PEFT": adapted}
    given["of Transformers"] = lambda: AutoModelForCausalLM.from_pretrained(folder)
    policies = build_policies(given[source](), ROLES, sharing)
    for role in policies.roles:
        with policies.active(role):
            close(logits(policies.module), expected)
    if sharing == "full":
        names = {name: dict(policies.named_parameters(name)) for name in policies.weight_names}
        assert names["prover"].keys() == dict(load_tiny_model()[0].named_parameters()).keys()
        with torch.no_grad():
            names["prover"]["model.norm.weight"].zero_()
        with policies.active("conjecturer"):
            close(logits(policies.module), expected)
    if sharing == "lora":
        assert policies.base_beside("prover") == BASE
        with policies.reference("prover", policies.module) as reference:
            close(logits(reference), expected)


def test_a_base_has_a_name_if_its_weights_are_there(tmp_path):
    model, _ = load_tiny_model()
    assert as_named(model) and build_policies(model, ROLES, "lora").base_beside("prover") == ""
    changed, _ = load_tiny_model()
    with torch.no_grad():
        changed.model.norm.weight[-1] += 1e-3
    assert not as_named(changed) and build_policies(changed, ROLES, "lora").base_beside("prover") == BASE
    half = AutoModelForCausalLM.from_pretrained(TINY, dtype="bfloat16")
    assert as_named(half)  # as the folder is read in its dtype
    for nowhere in ("", "nobody/nothing-such", str(tmp_path)):
        half.name_or_path = half.config._name_or_path = nowhere
        assert not as_named(half)


@pytest.mark.parametrize(("changed", "says"), [
    ("no JSON", "does not hold a JSON object"),
    ({"base_model_name_or_path": None}, "names no base; write its folder or hub id there"),
    ({"base_model_name_or_path": "/no/where"}, "is an adapter over '/no/where'. The model '/no/where' cannot be"),
    ({"peft_type": "NEW"}, r"adapter' does not fit '.*': 'NEW'"),
    ({"r": 8}, r"adapter' does not fit '.*size mismatch"),
], ids=str)  # fmt: skip
def test_a_damaged_adapter_is_one_sentence(changed, says, folder):
    file = folder / "adapter_config.json"
    said = changed if isinstance(changed, str) else json.dumps(json.loads(file.read_text()) | changed)
    file.write_text(said)
    with pytest.raises(DataError, match=says):
        load_pretrained(str(folder), {"dtype": "float32"})


def test_a_base_is_found_above_its_adapters_and_an_embedded_one_in_this_installation(folder, tmp_path):
    for place in ("prover", "checkpoint-3/prover", "prover/round_2/model"):
        inside = over(tmp_path / place, f"/before/it/moved/{BASE}")
        assert base_of(inside / "adapter_config.json") == (f"/before/it/moved/{BASE}", None)
        load_tiny_model()[0].config.save_pretrained(tmp_path / BASE)
        assert base_of(inside / "adapter_config.json") == (str(tmp_path / BASE), None)
        (tmp_path / BASE / "config.json").unlink()
    ends = {"tiny/weights": TINY_MODEL_PATH, "tiny/ladder/asked": LADDER_ASKED_PATH}
    for end, place in ends.items():
        made = over(tmp_path / "moved", f"/other/site-packages/countdown_selfplay/{end}")
        assert base_of(made / "adapter_config.json") == (str(place), None)
        assert config_of(str(made)).hidden_size == config_of(str(place)).hidden_size
    there = tmp_path / "countdown_selfplay" / "tiny" / "weights"  # is what the adapter names
    there.mkdir(parents=True)
    assert base_of(over(tmp_path / "moved", there) / "adapter_config.json") == (str(there), None)


def over(folder, base):
    """`folder` with an adapter_config.json that names `base`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(base)}))
    return folder


def test_an_adapter_without_a_tokenizer_has_its_checkpoints_or_its_bases(folder, tmp_path):
    tokenizer = load_tiny_model()[1]
    usual = len(tokenizer)
    checkpoint = tmp_path / "checkpoint-2"
    inner = over(checkpoint / "prover", folder)  # an adapter over an adapter over the tiny model
    tokenizer.add_tokens(["added"])
    tokenizer.save_pretrained(checkpoint)
    assert len(load_tokenizer(str(folder), False)) == len(load_tokenizer(str(inner), False)) == usual
    (checkpoint / "trainer_state.json").write_text("{}")
    assert len(load_tokenizer(str(inner), False)) == len(read_tokenizer(str(inner))) == usual + 1
    tokenizer.add_tokens(["more"])
    tokenizer.save_pretrained(inner)
    assert len(load_tokenizer(str(inner), False)) == usual + 2
    said = r"The tokenizer of '.*gone' is that of '/no/where'\. The model '/no/where' cannot be loaded"
    with pytest.raises(DataError, match=said):
        load_tokenizer(str(over(tmp_path / "gone", "/no/where")), False)


def test_adapters_that_are_each_others_base_are_one_sentence(tmp_path):
    own = tmp_path / "own"
    for base in (own, over(tmp_path / "second", own)):
        for read in (config_of, lambda path: load_tokenizer(path, False), lambda path: load_pretrained(path, {})):
            with pytest.raises(DataError, match="' as base, which lies over it; write the folder"):
                read(str(over(own, base)))
