# Tests: generation/base.py, generation/colocate.py, generation/vllm_sampler.py
"""Policies and sampling context of a pool, "prover/0" and "prover/1" beside a conjecturer, without a trainer."""

import json
from types import SimpleNamespace

import pytest
import torch
from peft import LoraConfig
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from countdown_selfplay.distributed.processes import ALONE
from countdown_selfplay.generation.base import SamplingContext
from countdown_selfplay.generation.colocate import Colocate
from countdown_selfplay.generation.vllm_sampler import (
    AdapterFolders,
    VLLMSampler,
    adapter_rank,
    adapter_state,
    fingerprint,
)
from countdown_selfplay.policies.build import build_policies
from countdown_selfplay.tiny import TINY_MODEL_PATH, load_tiny_model
from tests.joint_config import joint_config

ROLES = ("prover/0", "prover/1", "conjecturer")
LORA = LoraConfig(r=4, target_modules=["q_proj"], task_type="CAUSAL_LM")


def config(folder, sharing="lora", **roles):
    roles = {"prover": {"players": 2}, **roles}
    return joint_config(str(folder), use_cpu=True, policy_sharing=sharing, roles=roles, temperature=0.5, min_p=0.1)


def built(args):
    model = AutoModelForCausalLM.from_pretrained(str(TINY_MODEL_PATH), dtype="float32")
    return build_policies(model, args.all_roles, args.policy_sharing, LORA if args.policy_sharing == "lora" else None)


@pytest.fixture
def policies(tmp_path):
    found = built(config(tmp_path))
    assert found.roles == found.weight_names == ROLES
    return found


def test_each_player_has_its_own_adapter_and_folder(policies, tmp_path):
    """Names of adapters are names of folders, which resumes and engines look for one level deep."""
    for number, name in enumerate(policies.weight_names):
        for _, parameter in policies.named_parameters(name):
            torch.nn.init.constant_(parameter, float(number))
    folders = AdapterFolders(tmp_path / "sent", policies)
    assert adapter_rank(policies) == 8  # 4, rounded up to one that vLLM knows
    for number, name in enumerate(policies.weight_names):
        policies.export(name, tmp_path / "exported" / str(number))
        label, _, folder = folders.write(name, adapter_state(policies, name))
        assert "/" not in label and folder.parent == tmp_path / "sent"
        for written in (tmp_path / "exported" / str(number), folder):
            tensors = load_file(written / "adapter_model.safetensors")
            assert tensors and all(bool((t == number).all()) for t in tensors.values())
            assert json.loads((written / "adapter_config.json").read_text())["r"] == 4
            assert sorted(p.name for p in written.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    assert len(list((tmp_path / "sent").iterdir())) == len(list((tmp_path / "exported").iterdir())) == 3
    policies.module.save_pretrained(tmp_path / "checkpoint")
    found = {p.name for p in (tmp_path / "checkpoint").iterdir() if p.is_dir()}
    assert found == {"prover_0", "prover_1", "conjecturer"}


def test_weights_are_held_when_all_that_play_them_are_without_signal(policies):
    assert policies.without_signal({"prover/1"}) == {"prover/1"}
    assert policies.without_signal(set(ROLES)) == set(ROLES)
    policies.weights_of = {"prover/0": "prover", "prover/1": "prover", "conjecturer": "conjecturer"}
    assert policies.without_signal({"prover/1", "conjecturer"}) == {"conjecturer"}
    assert policies.without_signal({"prover/0", "prover/1"}) == {"prover/0"}  # the groups of the optimizer say so


def turns_of(args, policies, stops=lambda role: None, record=lambda name, value: None):
    return SamplingContext(
        args=args, roles=args.all_roles, policies=policies, processes=ALONE, tokenizer=load_tiny_model()[1],
        ends=(1, 2), stops=stops, key=lambda: (0, 0), record=record,
    )  # fmt: skip


class Listed(VLLMSampler):
    """The base of the vLLM backends, with a list for an engine."""

    def __init__(self, context):
        super().__init__(context)
        self.sent = []

    def push(self, name, role):
        return self.renew("engine", name, lambda: self.sent.append(name))

    def generate(self, role, prompts, images, num_generations, profiler=None):
        return role


def test_a_turn_needs_no_trainer(policies, tmp_path):
    stops = {"prover/0": ["#"], "prover/1": None, "conjecturer": None}
    recorded = []
    record = lambda name, value: recorded.append((name, value))  # noqa: E731
    engine = Listed(turns_of(config(tmp_path), policies, stops=stops.get, record=record))
    engine.context.args.generation_kwargs = {"min_new_tokens": 2, "suppress_tokens": [5, 6]}
    settings = engine.sampling_settings("prover/0")
    assert settings["min_tokens"] == 2 and settings["logit_bias"] == {5: -100.0, 6: -100.0}
    assert settings["temperature"] == 0.5 and settings["min_p"] == 0.1
    assert settings["stop"] == ["#"] and settings["stop_token_ids"] == [1, 2]
    assert "stop" not in engine.sampling_settings("prover/1")
    for role in ("prover/0", "prover/0", "prover/1"):
        swapped = engine.begin(role, step=7)
        assert swapped["vllm_generation"].generate([], None, 1) == role and swapped["_last_loaded_step"] == 7
    assert engine.sent == ["prover/0", "prover/1"]  # the second turn found its weights there
    pushed = [(name[:8], value) for name, value in recorded if name.endswith("/weights_pushed")]
    assert pushed == [("prover/0", 1.0), ("prover/0", 0.0), ("prover/1", 1.0)]
    assert [name for name, _ in recorded if name.startswith("time/")] == ["time/push_prover/0", "time/push_prover/1"]


def test_under_lora_a_frozen_role_plays_the_engines_base_and_pushes_nothing(tmp_path):
    """What Colocate does before any of vLLM is touched: no adapter's name goes along, also after another's did."""
    args = config(tmp_path, conjecturer={"weights": "start"})
    engine = object.__new__(Colocate)
    VLLMSampler.__init__(engine, turns_of(args, built(args)))
    llm = SimpleNamespace(lora_request="the prover's")
    engine.generation = SimpleNamespace(llm=llm, _llm_weights_sleeping=False)
    assert engine.push(engine.context.policies.weights_of["conjecturer"], "conjecturer") is False
    assert llm.lora_request is None and engine._held == {}


def test_under_full_each_players_model_and_the_frozen_one_can_be_pushed(tmp_path):
    args = config(tmp_path, "full", conjecturer={"weights": "start"})
    policies = built(args)
    engine = object.__new__(Colocate)
    VLLMSampler.__init__(engine, turns_of(args, policies))
    assert sorted(policies.weights_of.values()) == ["prover/0", "prover/1", "start"]
    for name in policies.weights_of.values():
        assert engine.renew("engine", name, list)
        assert engine._held == {"engine": (name, fingerprint(engine._module_of(name).parameters()))}
    assert len({id(engine._module_of(name)) for name in policies.weights_of.values()}) == 3
