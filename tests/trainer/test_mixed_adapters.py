# Tests: policies/mixed_adapters.py, policies/lora.py, training/plan.py, training/round_loop.py
"""Rows of several players in one pass, each through its own adapter, against a pass per player."""

import copy
import re
from dataclasses import replace

import pytest
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel

from countdown_selfplay.contract.round import Rollout, Turn
from countdown_selfplay.objectives import OBJECTIVES, make_objective
from countdown_selfplay.policies.forward import bare, padding_of
from countdown_selfplay.policies.mixed_adapters import allow_mixed
from countdown_selfplay.tiny import TINY_MODEL_PATH
from countdown_selfplay.training.plan import Pass, samples_of, side_by_side
from tests.probe_games import POOL
from tests.trainer.conftest import gradients, make_trainer, rounds, weights
from tests.trainer.test_probe_games import GAME
from tests.trainer.test_shared_prefix import Counted, exact_head

LORA = LoraConfig(r=4, lora_alpha=6, target_modules="all-linear", task_type="CAUSAL_LM", use_rslora=True)
MIXED = dict(policy_sharing="lora", mixed_adapters="on")
PLAIN = dict(policy_sharing="lora", mixed_adapters="off")


def lora(**changes):
    config = copy.deepcopy(LORA)
    for name, value in changes.items():
        setattr(config, name, value)
    return {"trainer": {"peft_config": config}}


def double_tiny():
    return AutoModelForCausalLM.from_pretrained(str(TINY_MODEL_PATH)).double()


def filled(trainer):
    """Values in the B matrices, which are 0 at the start."""
    g = torch.Generator().manual_seed(1)
    for name in trainer.policies.weight_names:
        for key, p in trainer.policies.named_parameters(name):
            if "lora_B" in key:
                p.data.copy_(torch.randn(p.shape, generator=g) * 0.1)


def part(role, rows, prompt, answer, seed, kind=torch.float32):
    """A player's pass: prompts of its own width, of which the second row's begins later; unequal answers; a row
    without an answer and two without credit."""
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, answer + 1, (rows,), generator=g)
    lengths[0], lengths[rows - 1] = answer, 0
    mask = (torch.arange(answer) < lengths[:, None]).long()
    prompts = torch.randint(3, 30, (1 + rows // 2, prompt), generator=g).repeat_interleave(2, 0)[:rows]
    prompt_mask = torch.ones(rows, prompt, dtype=torch.long)
    prompt_mask[1, :2] = 0
    credit = torch.randn(rows, generator=g, dtype=kind)
    credit[2:4] = 0
    old = torch.randn(rows, answer, generator=g, dtype=kind) * 0.3 - 4
    tensors = {
        "prompt_ids": prompts, "prompt_mask": prompt_mask, "completion_mask": mask,
        "completion_ids": torch.randint(3, 30, (rows, answer), generator=g),
        "old_per_token_logps": old, "ref_per_token_logps": old - 0.1,
    }  # fmt: skip
    turn = Turn(Rollout(role, [], [""] * rows, tensors=tensors), credit, group=2)
    return Pass(((role, samples_of([turn], 0, 100 * seed)),))


def compare(trainer, parts, within):
    """One mixed pass, and then a pass per player again; every player has a gradient."""
    apart = gradients(trainer, parts)
    together = gradients(trainer, side_by_side(parts))
    assert together[0] == pytest.approx(apart[0], rel=max(within, 1e-12))
    assert together[1].keys() == apart[1].keys() == {trainer.policies.weights_of[p.role] for p in parts}
    for name, expected in apart[1].items():
        assert expected.norm() > 0, name
        assert (together[1][name] - expected).norm() <= within * expected.norm(), name
    return apart


def four(trainer, kind=torch.float32):
    """A pass of each player, no two of which have one shape."""
    roles = list(trainer.learners)
    return [part(role, 5 + i, 4 + 3 * (i % 2), 5 + i, seed=i, kind=kind) for i, role in enumerate(roles)]


def exactly(trainer):
    """The trainer's base in float64 from end to end; TRL's head and norms compute in float32."""
    exact_head(trainer.policies.module.get_base_model())
    allow_mixed(trainer.policies, "on", "ddp", False)
    filled(trainer)


SETTINGS = dict(num_generations=8, conjecturer_num_generations=16, problems_per_round=4)


@pytest.fixture(scope="module")
def in_both(tmp_path_factory):
    """(trainer, precision, how near): in float64, then in float32 with TRL's head. KL and entropy in the prover's
    loss; the conjecturer's is RLOO."""
    settings = dict(prover_beta=0.05, prover_entropy_coef=0.01, conjecturer_objective="rloo", **SETTINGS)
    settings |= {"prover_objective": "expert_iteration"}  # the head also says which tokens are the likeliest
    tokenizer = {"processing_class": AutoTokenizer.from_pretrained(str(TINY_MODEL_PATH), padding_side="left")}
    more = {"policy_sharing": "lora", "trainer": {**lora()["trainer"], **tokenizer}}
    double = make_trainer(tmp_path_factory.mktemp("double"), model=double_tiny(), **settings, **more)
    exactly(double)
    single = make_trainer(tmp_path_factory.mktemp("single"), **MIXED, **settings, **lora())
    filled(single)
    return (double, torch.float64, 1e-9), (single, torch.float32, 1e-5)


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_gradients_of_each_objective_are_those_of_separate_passes(in_both, name):
    for trainer, kind, within in in_both:
        trainer.learners["prover"].loss.objective = make_objective(name)
        compare(trainer, four(trainer, kind), within)


def pool(players, **changes):
    """So many provers, which imitate, and conjecturers, which do not; a micro-batch each."""
    roles = {kind: {**role, "players": players} for kind, role in POOL["roles"].items()}
    roles["conjecturer"] = {"players": players, "num_generations": 16}
    start = {"operands": [2, 3, 4, 5], "frontier_low": 0.0, "frontier_high": 1.0, "problems_per_round": 4}
    start["proposer_kwargs"] = {"start": [2, 3, 4, 5][:players], "ceiling": 5, "min_valid": 2}
    return {**POOL, **start, "roles": roles, **MIXED, **lora(), "max_steps": 1, **changes}


@pytest.fixture
def single(in_both):
    trainer = in_both[1][0]
    trainer.learners["prover"].loss.objective = make_objective("rloo")
    return trainer


def test_players_with_equally_many_rows_have_the_gradients_of_separate_passes(single):
    trainer = single
    parts = [part(role, 6, 4 + i, 5, seed=i) for i, role in enumerate(trainer.learners)]
    compare(trainer, parts, 1e-5)
    mixed = trainer.policies.mixed
    assert mixed.owner_N is None and set(zip(mixed.owner_B, mixed.shift_B, strict=True)) == {(0, 1), (1, 0)}
    compare(trainer, parts[::-1], 1e-5)
    assert trainer.policies.mixed.owner_N.tolist() == [1, 0]


@pytest.mark.parametrize("checkpointing", [False, True])
def test_prompts_are_shared_within_a_player_in_a_mixed_pass(tmp_path, checkpointing):
    """Both players' prompts are the same tokens: packs are of one player each."""
    trainer = make_trainer(
        tmp_path, **MIXED, **SETTINGS, **lora(), prover_beta=0.05, gradient_checkpointing=checkpointing
    )
    filled(trainer)
    if checkpointing:
        trainer.model.gradient_checkpointing_enable({"use_reentrant": False})
        trainer.model.train()
    head = trainer.policies.module.get_base_model()
    parts = [part(role, 6, 6, 4 + i, seed=i) for i, role in enumerate(trainer.learners)]
    ((_, first),), ((role, second),) = (one.parts for one in parts)
    parts[1] = Pass(((role, [replace(b, prompt=a.prompt) for a, b in zip(first, second, strict=True)]),))
    head.shared_prefix = None
    apart = gradients(trainer, parts)
    for shared in (None, Counted(head, always=True)):
        head.shared_prefix = shared
        total, found = gradients(trainer, side_by_side(parts))
        assert total == pytest.approx(apart[0], rel=1e-5)
        for name, expected in apart[1].items():
            assert (found[name] - expected).norm() <= 1e-5 * expected.norm()
    assert shared.packed >= 1


def test_gradients_of_a_step_add_up_over_passes_alone_and_together(single):
    """A player's second pass is alone in its pass, before or after the mixed one."""
    trainer = single
    first, second = four(trainer)
    more = part(first.role, 4, 5, 6, seed=9)
    _, apart = gradients(trainer, [first, second, more])
    mixed = side_by_side([first, second])
    for order in ([*mixed, more], [more, *mixed]):
        _, found = gradients(trainer, order)
        for name, expected in apart.items():
            assert (found[name] - expected).norm() <= 1e-5 * expected.norm()


def test_absolute_positions_are_those_of_separate_passes(tmp_path):
    """GPT-2 learns a vector per position; its linear layers are transposed ones."""
    torch.manual_seed(0)
    sizes = dict(vocab_size=129, n_embd=32, n_layer=2, n_head=4, n_positions=256)
    model = GPT2LMHeadModel(GPT2Config(**sizes, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
    more = {"processing_class": AutoTokenizer.from_pretrained(str(TINY_MODEL_PATH), padding_side="left")}
    adapter = LoraConfig(r=4, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True, task_type="CAUSAL_LM")
    trainer = make_trainer(tmp_path, model=model, **MIXED, **SETTINGS, trainer={"peft_config": adapter, **more})
    filled(trainer)
    compare(trainer, four(trainer), 1e-5)


@pytest.mark.parametrize(
    "settings", ["pool", *(pytest.param(s, marks=pytest.mark.matrix) for s in ("critic", "kept"))]
)
def test_a_run_with_mixed_passes_ends_where_one_without_ends(tmp_path, settings):
    """A 2 x 2 pool; the critic game, of three roles; several micro-batches, some without credit. Each step of the
    optimizer moves by a clipped gradient: SGD, for Adam's first step is of one size whatever a tiny gradient is."""
    own = {
        "pool": pool(2),
        "critic": {**GAME, **MIXED, "trainer": {**GAME["trainer"], **lora()["trainer"]}},
        "kept": {**MIXED, **lora(), "problems_per_round": 12, "prover_beta": 0.01, "conjecturer_max_grad_norm": 0.1},
    }[settings]
    if settings != "kept":  # some players have no signal in these rounds but the entropy's
        own |= {"entropy_coef": 0.05, "drop_signalless_gradients": False}
    own |= {"max_steps": 2, "optim": "sgd", "learning_rate": 0.05}
    ends = []
    for mode in ("off", "on"):
        trainer = make_trainer(tmp_path / mode, **{**own, "mixed_adapters": mode})
        assert (trainer.policies.mixed is not None) == (mode == "on")
        start = weights(trainer)
        trainer.train()
        ends.append((weights(trainer), rounds(tmp_path / mode)))
    moved = {key.split(":")[0] for key in start if not torch.equal(start[key], ends[0][0][key])}
    assert moved == set(trainer.policies.weight_names)
    for name, value in ends[0][0].items():
        torch.testing.assert_close(value, ends[1][0][name], rtol=1e-4, atol=1e-6)
    for plain, mixed in zip(ends[0][1], ends[1][1], strict=True):
        assert plain.keys() == mixed.keys()
        for key in plain:
            if "grad_norm" in key or key.endswith(("/loss", "/entropy")):
                assert mixed[key] == pytest.approx(plain[key], rel=1e-3, abs=1e-6), key


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"lora_dropout": 0.1}, "has dropout"),
        ({"modules_to_save": ["lm_head"]}, "whole modules"),
        ({"use_dora": True}, "DoRA"),
        ({"lora_bias": True}, "biases"),
    ],
)
def test_adapters_that_cannot_share_a_pass_run_apart_with_one_warning(tmp_path, caplog, changes, why):
    trainer = make_trainer(tmp_path, **MIXED, **SETTINGS, **lora(**changes))
    said = [record.message for record in caplog.records if "mixed_adapters" in record.message]
    assert trainer.policies.mixed is None and len(said) == 1
    assert re.search(why, said[0])


def test_engines_and_packed_rows_and_several_bases_run_apart_with_one_warning(tmp_path, caplog):
    trainer = make_trainer(tmp_path, **PLAIN, **SETTINGS, **lora())
    for given, why in ((("zero2", False), "zero2"), (("fsdp2", False), "fsdp2"), (("ddp", True), "padding_free")):
        caplog.clear()
        allow_mixed(trainer.policies, "on", *given)
        assert trainer.policies.mixed is None and len(caplog.records) == 1 and why in caplog.text
    caplog.clear()
    models = {"prover": str(TINY_MODEL_PATH), "conjecturer": double_tiny().float()}
    trainer = make_trainer(tmp_path / "two", model=models, **MIXED, **SETTINGS, **lora())
    assert "adapters over several models" in caplog.text
    assert padding_of(bare(trainer.policies.module), 8) != "apart"  # the base is asked how it reads padding


def test_a_base_that_reads_mixed_rows_otherwise_is_found_out(tmp_path, caplog):
    """A layer whose input is not one row after the other: the check before the first round sees it."""
    trainer = make_trainer(tmp_path, **PLAIN, **SETTINGS, **lora())
    start = weights(trainer)
    for layer in trainer.policies.module.get_base_model().model.layers:
        inner = layer.mlp.forward
        layer.mlp.forward = lambda x, inner=inner: inner(x.flip(0)).flip(0)
    allow_mixed(trainer.policies, "on", "ddp", False)
    assert trainer.policies.mixed is None and "hidden states differ" in caplog.text and len(caplog.records) == 1
    assert all(torch.equal(value, start[name]) for name, value in weights(trainer).items())


def test_auto_mixes_on_a_cpu_over_small_bases(tmp_path, monkeypatch):
    trainer = make_trainer(tmp_path, policy_sharing="lora", **SETTINGS, **lora())
    assert trainer.policies.mixed is not None
    # The embedded model has half a million weights.
    monkeypatch.setattr("countdown_selfplay.policies.mixed_adapters.SMALL", 1e5)
    assert make_trainer(tmp_path, policy_sharing="lora", **SETTINGS, **lora()).policies.mixed is None
    assert make_trainer(tmp_path, policy_sharing="full", **SETTINGS).policies.mixed is None
