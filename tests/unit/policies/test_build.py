# Tests: policies/build.py, policies/base.py, policies/full.py, policies/lora.py, policies/optimization.py
"""From players to weights: who shares what, what is frozen, what is trained, on the embedded tiny model."""

import json

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from countdown_selfplay import JointSelfPlayConfig
from countdown_selfplay.distributed.ddp import clip_roles
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.policies import build_policies
from countdown_selfplay.policies.build import load_tokenizer
from countdown_selfplay.policies.optimization import parameter_groups
from countdown_selfplay.tiny import TINY_MODEL_PATH, load_tiny_model

TINY = str(TINY_MODEL_PATH)
IDS = torch.tensor([[1, 5, 9, 4]])


def config(sharing="full", **roles):
    return JointSelfPlayConfig("unused", use_cpu=True, game=None, policy_sharing=sharing, roles=roles)


def built(sharing="full", model=TINY, **roles):
    args = config(sharing, **roles)
    torch.manual_seed(0)
    policies = build_policies(model, args.all_roles, sharing)
    temperatures = {name: s.temperature for name, s in args.all_roles.items()}
    policies.prepare(temperatures, [n for n, s in args.all_roles.items() if s.beta > 0], None, lambda frozen: frozen)
    return policies, args


def logits(policies, role):
    with policies.active(role), torch.no_grad():
        return policies.module(input_ids=IDS, attention_mask=torch.ones_like(IDS)).logits


def moved(policies, name):
    """Adds 1 to the weights called `name` (of an adapter whose other half is 0, to both)."""
    with torch.no_grad():
        for _, parameter in policies.named_parameters(name):
            parameter += 1.0


POOL = dict(prover={"players": 2}, conjecturer={"players": 2})


@pytest.mark.parametrize("sharing", ["full", "lora", "tied"])
def test_each_player_of_a_pool_has_weights_of_its_own_unless_all_are_tied(sharing):
    policies, args = built(sharing, **POOL)
    names = ("policy",) if sharing == "tied" else tuple(args.all_roles)
    assert policies.weight_names == names and policies.roles == tuple(args.all_roles)
    before = {role: logits(policies, role) for role in policies.roles}
    moved(policies, names[-1])
    changed = [role for role in policies.roles if not torch.equal(logits(policies, role), before[role])]
    assert changed == (list(policies.roles) if sharing == "tied" else ["conjecturer/1"])


@pytest.mark.parametrize("sharing", ["full", "lora", "tied"])
def test_a_frozen_role_plays_what_was_passed_in_and_trains_nothing(sharing):
    policies, args = built(sharing, prover={}, guide={"weights": "start"}, judge={"weights": "start"})
    start = load_tiny_model()[0](IDS).logits
    moved(policies, policies.weight_names[0])
    assert policies.weight_names == (("policy",) if sharing == "tied" else ("prover",))
    for role in ("guide", "judge", "guide"):
        torch.testing.assert_close(logits(policies, role), start)
        assert not torch.allclose(logits(policies, "prover"), start)  # back and forth
    groups = parameter_groups(policies, args.all_roles, set(), 0.0)
    trained = {id(p) for group in groups for p in group["params"]}
    assert {group["role"] for group in groups} == {"prover"}
    assert trained == {id(p) for p in policies.module.parameters() if p.requires_grad}
    policies.activate("guide")  # a turn of the guide leaves the prover trainable
    assert trained == {id(p) for p in policies.module.parameters() if p.requires_grad}


@pytest.mark.parametrize(
    ("model", "conjecturer", "sharing"),
    [("tiny", TINY, "full"), (TINY, "tiny", "lora"), ("tiny", "tiny", "lora"),
     ({"prover": "tiny", "conjecturer": TINY}, TINY, "lora")],
    ids=["name", "path", "one name", "each"],
)  # fmt: skip
def test_the_embedded_model_has_a_name_wherever_a_role_names_its_own(model, conjecturer, sharing):
    """By name or by path it is one model: under lora one base, and the frozen starts of both roles are one."""
    roles = {"prover": {}, "conjecturer": {"model": conjecturer}, "judge": {"weights": "start", "model": "tiny"}}
    policies, _ = built(sharing, model if isinstance(model, str) else {**model, "judge": "tiny"}, **roles)
    start = load_tiny_model()[0](IDS).logits
    for role in policies.roles:
        torch.testing.assert_close(logits(policies, role), start)
    assert load_tokenizer(model, False).pad_token_id == load_tokenizer(TINY, False).pad_token_id
    assert type(policies).__name__ == {"full": "FullPolicies", "lora": "LoraPolicies"}[sharing]


@torch.no_grad()
def test_roles_refer_to_a_copy_of_their_start_each_at_its_own_temperature():
    roles = {"prover": {"beta": 0.1}, "conjecturer": {"beta": 0.1, "temperature": 0.7}}
    policies, args = built(**roles)
    assert len(policies.frozen_copies) == 1
    for name in policies.weight_names:  # training moves the policies and not what they refer to
        moved(policies, name)
    start = load_tiny_model()[0].eval()(input_ids=IDS).logits[0, :-1]
    for role in ("prover", "conjecturer", "prover"):
        with policies.reference(role, policies.module) as reference:
            found = reference(input_ids=IDS, labels=IDS, fused_lm_head=True).log_probs[0]
        expected = (start / args.role(role).temperature).log_softmax(-1).gather(1, IDS[0, 1:, None])[:, 0]
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    two, _ = built(model={"prover": TINY, "conjecturer": load_tiny_model()[0]}, **roles)
    assert len(two.frozen_copies) == 2


def test_a_frozen_model_is_not_written_into_a_checkpoint(tmp_path):
    policies, _ = built(prover={}, guide={"weights": "start"})
    policies.module.save_pretrained(str(tmp_path))
    kept = load_file(tmp_path / "model.safetensors")
    assert kept and all(key.startswith("policies.prover.") for key in kept)


def test_players_that_share_weights_are_one_group_of_parameters():
    limit = {"players": 2, "max_grad_norm": 0.5}
    policies, args = built(prover=limit, critic=limit | {"weights": "prover"})
    assert policies.shared_by("prover/1") == ("prover/1", "critic/1")
    groups = parameter_groups(policies, args.all_roles, set(), 0.0)
    optimizer = torch.optim.SGD(groups, lr=0.0)
    assert [group["role"] for group in groups] == ["prover/0", "prover/1"]
    for parameter in groups[1]["params"]:
        parameter.grad = torch.ones_like(parameter)
    size = sum(p.numel() for p in groups[1]["params"])
    assert clip_roles(optimizer, args.all_roles) == {"prover/1": pytest.approx(size**0.5)}
    norm = torch.cat([p.grad.flatten() for p in groups[1]["params"]]).norm()
    assert float(norm) == pytest.approx(0.5, rel=1e-3)  # in float32


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """A second model with the tokenizer of the first: its weights, halved."""
    folder = tmp_path_factory.mktemp("other")
    model, tokenizer = load_tiny_model()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 0.5
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def test_under_lora_each_distinct_model_is_one_base_with_its_players_adapters(other, tmp_path):
    roles = dict(
        prover={"players": 2, "beta": 0.1}, conjecturer={"players": 2, "model": other, "temperature": 0.5},
        guide={"weights": "start", "model": other, "temperature": 0.5}, judge={"weights": "start"},
    )  # fmt: skip
    policies, args = built("lora", **roles)
    first, second = load_tiny_model()[0](IDS).logits, AutoModelForCausalLM.from_pretrained(other)(IDS).logits
    kinds = {"prover/0": first, "conjecturer/1": second, "guide": second, "judge": first}
    for role, expected in kinds.items():
        torch.testing.assert_close(logits(policies, role), expected)
    assert len(policies.module.policies) == 2  # bases
    assert policies.weight_names == ("prover/0", "prover/1", "conjecturer/0", "conjecturer/1")
    moved(policies, "conjecturer/1")
    for role, expected in kinds.items():
        assert torch.allclose(logits(policies, role), expected) == (role != "conjecturer/1")
    moved(policies, "prover/0")
    with policies.active("prover/0"), policies.reference("prover/0", policies.module) as reference, torch.no_grad():
        torch.testing.assert_close(reference(input_ids=IDS, attention_mask=torch.ones_like(IDS)).logits, first)
    groups = parameter_groups(policies, args.all_roles, set(), 0.0)
    assert [group["role"] for group in groups] == list(policies.weight_names)
    assert {id(p) for g in groups for p in g["params"]} == {
        id(p) for p in policies.module.parameters() if p.requires_grad
    }
    policies.module.save_pretrained(str(tmp_path))
    kept = load_file(tmp_path / "model.safetensors")
    assert all("lora_" in key for key in kept) and {key.split(".")[1] for key in kept} == {"base_0", "base_1"}
    fresh, _ = built("lora", **roles)
    missing = fresh.module.load_state_dict(kept, strict=False)
    assert missing.unexpected_keys == [] and set(missing.missing_keys) == set(fresh.module._keys_to_ignore_on_save)
    torch.testing.assert_close(logits(fresh, "conjecturer/1"), logits(policies, "conjecturer/1"))
    for name in policies.weight_names:
        policies.export(name, tmp_path / name.replace("/", "_"))
    loaded = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(other), tmp_path / "conjecturer_1")
    torch.testing.assert_close(loaded(IDS).logits, logits(policies, "conjecturer/1"))
    for name, base in {"prover_0": TINY, "conjecturer_1": other}.items():
        assert json.loads((tmp_path / name / "adapter_config.json").read_text())["base_model_name_or_path"] == base
    with pytest.raises(ConfigError, match="starts from one base"):
        policies.export_start(tmp_path / "start")


def test_a_base_that_only_a_frozen_role_plays_has_no_adapter(other):
    policies, _ = built("lora", prover={}, guide={"weights": "start", "model": other})
    torch.testing.assert_close(logits(policies, "guide"), AutoModelForCausalLM.from_pretrained(other)(IDS).logits)
    assert policies.weight_names == ("prover",) and set(policies.module.policies) == {"base_0", "start_1"}


def test_sources_may_be_given_per_player_and_kind(other):
    model = {"prover/0": other, "prover": TINY, "conjecturer": load_tiny_model()[0]}
    policies, _ = built(model=model, **POOL)
    first, second = load_tiny_model()[0](IDS).logits, AutoModelForCausalLM.from_pretrained(other)(IDS).logits
    for role, expected in zip(policies.roles, (second, first, first, first), strict=True):
        torch.testing.assert_close(logits(policies, role), expected)
    moved(policies, "conjecturer/0")  # the object was taken by one and copied for the other
    torch.testing.assert_close(logits(policies, "conjecturer/1"), first)
