# Tests: policies/shared_prefix.py, training/round_loop.py
"""Passes that read a prompt once for all of its answers, against rows that each read their own."""

import dataclasses
import functools
import re

import numpy as np
import pytest
import torch
import transformers
from trl.trainer.utils import FusedCausalLMOutput

from countdown_selfplay.contract.round import Rollout, Turn
from countdown_selfplay.distributed.ddp import Engine
from countdown_selfplay.objectives import OBJECTIVES, make_objective
from countdown_selfplay.policies import shared_prefix
from countdown_selfplay.policies.forward import score_completions_only, scored_at
from countdown_selfplay.policies.shared_prefix import (
    Rows,
    SharedPrefix,
    arranged,
    binned,
    obstacle,
    packed,
    share_prefixes,
)
from countdown_selfplay.training.plan import Pass, samples_of
from tests.trainer.conftest import gradients, make_trainer, weights
from tests.trainer.test_round import LORA

SMALL = dict(
    vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2,
)  # fmt: skip
LENGTHS = torch.tensor([5, 1, 3, 2, 5, 4, 3, 0])  # the last row has no answer


def llama(kind="Llama", **changes):
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**{**SMALL, **changes})
    return getattr(transformers, f"{kind}ForCausalLM")(config)


def gpt2(**changes):
    """It learns a vector per position: those of a pack are the columns of its rows."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=97, n_embd=32, n_layer=2, n_head=4, n_positions=32, **changes)
    return transformers.GPT2LMHeadModel(config)


def batch_of(which, padded):
    """Eight rows with the prompts `which` of three; prompt 1 has two tokens less, on the left, if `padded`."""
    g = torch.Generator().manual_seed(0)
    prompts = torch.randint(3, 90, (3, 6), generator=g)[which]
    mask = torch.ones(8, 6, dtype=torch.long)
    if padded:
        mask[torch.tensor(which) == 1, :2] = 0
    return {
        "prompt_ids": prompts, "prompt_mask": mask,
        "completion_ids": torch.randint(3, 90, (8, 5), generator=g),
        "completion_mask": (torch.arange(5) < LENGTHS[:, None]).long(),
    }  # fmt: skip


def exact_head(model):
    """In place of TRL's head, which computes in float32: the same outputs in the model's own precision."""

    def forward(self, labels=None, shift_labels=None, fused_lm_head=None, **kwargs):
        hidden = self.base_model(**kwargs, use_cache=False).last_hidden_state
        if shift_labels is None:
            hidden, shift_labels = hidden[:, :-1], labels[:, 1:]
        logps_BTV = self.lm_head(hidden).log_softmax(-1)
        kept = shift_labels != -100
        found = logps_BTV.gather(2, shift_labels.clamp(min=0)[..., None])[..., 0]
        entropy = -(logps_BTV.exp() * logps_BTV).sum(-1)
        return FusedCausalLMOutput(log_probs=found * kept, entropy=entropy * kept, is_top1=kept)

    model.forward = forward.__get__(model)
    for part in model.modules():
        if type(part).__name__.endswith("RMSNorm"):  # the library's own computes in float32
            part.forward = functools.partial(rms_norm, part)
    score_completions_only(model)


def rms_norm(part, hidden):
    return part.weight * hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + part.variance_epsilon)


def scored(model, batch):
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    labels = ids.masked_fill(mask == 0, -100)
    labels[:, : batch["prompt_ids"].size(1)] = -100
    output = model(input_ids=ids, attention_mask=mask, labels=labels, fused_lm_head=True)
    return output.log_probs[:, -5:], output.entropy[:, -5:]


def passed(model, batch, shared):
    """Log-probs, entropies and the gradient of a weighted sum of both, as one vector each."""
    model.shared_prefix = shared
    model.zero_grad()
    logps, entropies = scored(model, batch)
    weight = torch.linspace(-1, 2, 40, dtype=logps.dtype).view(8, 5)
    ((logps + 0.3 * entropies) * weight).sum().backward()
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    return logps.detach(), entropies.detach(), torch.cat([g.flatten() for g in grads])


class Counted(SharedPrefix):
    """Counts the passes that were packed."""

    packed = 0

    def score(self, *arguments):
        output = super().score(*arguments)
        self.packed += output is not None
        return output


def compare(model, batch, within):
    """The pack, and the rows that each read their own prompt."""
    ours = Counted(model, always=True)
    for found, plain in zip(passed(model, batch, ours), passed(model, batch, None), strict=True):
        assert (found - plain).norm() <= within * plain.norm()
    assert ours.packed == 1


MIXED = [0, 1, 0, 0, 1, 2, 0, 1]
WITHOUT_DROPOUT = functools.partial(gpt2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
CASES = [(kind, which, padded) for kind in (llama, functools.partial(llama, "Qwen2"))
         for which in (MIXED, [0] * 8) for padded in (False, True)]  # fmt: skip
"""Groups side by side or not; all proposals of a round."""


@pytest.mark.parametrize(("kind", "which", "padded"), [*CASES, (WITHOUT_DROPOUT, MIXED, False)])
def test_packed_rows_have_the_plain_log_probs_entropies_and_gradients_in_float64(kind, which, padded):
    model = kind().double()
    exact_head(model)
    compare(model, batch_of(which, padded), 1e-9)


def test_the_beginning_of_different_prompts_is_read_once(monkeypatch):
    """Prompts of 40 and 38 tokens that begin with the same 34, as a chat's do."""
    model, batch, starts = llama().double(), batch_of(MIXED, False), []
    exact_head(model)
    rest, short = batch["prompt_ids"], torch.tensor(MIXED) == 1
    prompts = torch.cat([torch.arange(20, 54).expand(8, 34), rest], 1)
    prompts[short] = torch.cat([prompts[short][:, -2:], prompts[short][:, :-2]], 1)  # two tokens less, on the left
    mask = torch.ones_like(prompts)
    mask[short, :2] = 0
    plain = shared_prefix.packed
    monkeypatch.setattr(shared_prefix, "packed", lambda rows, *more: starts.append(rows.start) or plain(rows, *more))
    compare(model, {**batch, "prompt_ids": prompts, "prompt_mask": mask}, 1e-9)
    assert max(starts) == 34


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_packed_rows_have_the_plain_gradients_in_float32_with_trls_head(attention, checkpointing):
    model = llama(attn_implementation=attention)
    scored_at(model, temperature=0.7, top1=True)
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.train()
    compare(model, batch_of(MIXED, True), 1e-5)


def rows_of(prompts, answers):
    """Prompt tokens and answer tokens of each row, padded."""
    before, behind = max(map(len, prompts)), max(map(len, answers))
    ids = [[0] * (before - len(p)) + p + a + [0] * (behind - len(a)) for p, a in zip(prompts, answers, strict=True)]
    mask = [
        [0] * (before - len(p)) + [1] * (len(p) + len(a)) + [0] * (behind - len(a))
        for p, a in zip(prompts, answers, strict=True)
    ]
    return Rows(np.array(ids), np.array(mask), before)


def test_the_layout_of_a_pack_is_prompt_and_answers_end_to_end_and_rows_with_holes_are_not_regular():
    rows = rows_of([[7, 8], [7, 8], [9]], [[11], [12, 13], [14]])
    assert rows.regular() and rows.groups() == [[0, 1], [2]]
    packs = packed(rows, [[[0, 1]], [[2]]])
    assert packs.ids_NL.tolist() == [[7, 8, 11, 12, 13], [9, 14, 0, 0, 0]]
    assert packs.positions_NL.tolist() == [[0, 1, 2, 2, 3], [1, 2, 0, 0, 0]]  # columns of the rows, which are 4 wide
    assert packs.source_M.tolist() == [1, 1, 3, 5]  # 8 predicts 11 and 12, 12 predicts 13, 9 predicts 14
    assert packs.target_M.tolist() == [2, 6, 7, 10]
    assert packs.visible_NLL[0].int().tolist() == [
        [1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 0, 1, 0], [1, 1, 0, 1, 1]
    ]  # fmt: skip
    assert packs.visible_NLL[1].int().tolist() == [
        [1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 1, 1, 1]
    ]  # fmt: skip
    # Both prompts begin with 5, the second one column later: 5 stands once, at position 0 of either row.
    rows = dataclasses.replace(rows_of([[5, 7, 8], [5, 9]], [[11], [12, 13]]), start=1)
    packs = packed(rows, [[[0], [1]]])
    assert packs.ids_NL.tolist() == [[5, 7, 8, 11, 9, 12, 13]]
    assert packs.positions_NL.tolist() == [[0, 1, 2, 3, 1, 2, 3]]
    assert packs.source_M.tolist() == [2, 4, 5] and packs.target_M.tolist() == [3, 8, 9]
    assert packs.visible_NLL[0].int().tolist() == [
        [1, 0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0],
        [1, 0, 0, 0, 1, 0, 0], [1, 0, 0, 0, 1, 1, 0], [1, 0, 0, 0, 1, 1, 1],
    ]  # fmt: skip
    rows = rows_of([[7, 8], [7, 8]], [[11, 12, 13], [12]])
    for row, column in ((0, 3), (0, 1), (1, 1)):  # inside an answer; the last token of a prompt
        mask = rows.mask_BC.copy()
        mask[row, column] = 0
        assert not Rows(rows.ids_BC, mask, 2).regular()


def test_packs_are_as_large_as_costs_least_and_runs_go_into_the_first_one_with_room():
    """Two answers behind a prompt of 10 tokens: 2 x (10 + 2) columns, or one pack of 10 + 2 + 2."""
    rows = rows_of([[5] * 10] * 2, [[6, 7]] * 2)
    plan, cost = arranged(rows, keys=100.0)
    assert plan == [[[0, 1]]] and cost == pytest.approx(14 * (100 + 14) / (2 * 12 * (100 + 12)))
    # Eight answers of 40 behind 10, attention alone: 330^2 in one pack, 2 x 170^2, 4 x 90^2; plain 8 x 50^2.
    rows = rows_of([[5] * 10] * 8, [[6] * 40] * 8)
    plan, cost = arranged(rows, keys=0.0)
    assert [len(run) for pack in plan for run in pack] == [2] * 4 and cost == pytest.approx(4 * 90**2 / (8 * 50**2))
    plan, _ = arranged(rows, keys=1e6)
    assert plan == [[list(range(8))]]
    assert arranged(rows_of([[5], [6]], [[7], [8]]), keys=1.0) == ([], float("inf"))  # nothing to share
    assert binned([3, 7, 4, 5, 2], 7) == [[1], [3, 4], [2, 0]]
    # Six prompts of 40 equal tokens and 2 of their own, answers of 3: 40 + 6 x 5 columns for 6 x 45 of plain rows.
    rows = rows_of([[5] * 40 + [6, n] for n in range(6)], [[7] * 3] * 6)
    plan, cost = arranged(dataclasses.replace(rows, start=40), keys=1e6)
    assert sorted(plan[0]) == [[n] for n in range(6)] and len(plan) == 1 and cost == pytest.approx(70 / 270, rel=1e-3)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (lambda: llama("Mistral", sliding_window=4), "otherwise than each alone"),
        (lambda: llama("Bloom"), "cannot read rows"),
        (lambda: llama(attention_dropout=0.1), "dropout"),
        (gpt2, "dropout"),
        (lambda: llama(attn_implementation="flex_attention"), "runs attention 'flex_attention'"),
    ],
)
def test_models_that_cannot_are_named_in_one_warning(model, why, caplog):
    model = model()
    assert re.search(why, obstacle(model))
    scored_at(model, temperature=1.0)
    assert not share_prefixes([model, model], "on")
    said = [record.getMessage() for record in caplog.records if record.name.startswith("countdown_selfplay")]
    assert len(said) == 1 and type(model).__name__ in said[0] and model.shared_prefix is None
    assert obstacle(llama()) == obstacle(llama("Qwen2")) == ""


def test_an_engine_that_cuts_weights_up_keeps_the_plain_pass(tmp_path, caplog, monkeypatch):
    """FSDP2 wraps after the trainer is built, so the model does not show it. The processes' batches differ: the one
    that packs first checks itself in a pass that the others do not make, and gloo ends the run."""
    monkeypatch.setattr(Engine, "shards_weights", True)
    trainer = make_trainer(tmp_path, shared_prefix="on")
    assert not trainer.policies.shares_prompts and "is cut up over processes" in caplog.text
    assert all(m.shared_prefix is None for m in trainer.policies.module.modules() if "shared_prefix" in vars(m))


def test_a_model_that_reads_packs_otherwise_falls_back_with_one_warning(caplog):
    """A backbone that ignores the positions of its tokens: the check of the first pass sees it."""
    model, batch = llama(initializer_range=0.5), batch_of(MIXED, True)
    scored_at(model, temperature=1.0)
    plain = passed(model, batch, None)
    inner = model.model.forward
    model.model.forward = lambda position_ids=None, **given: inner(**given)
    first = passed(model, batch, SharedPrefix(model, always=True))
    assert model.shared_prefix is None and len(caplog.records) == 1 and "otherwise than each alone" in caplog.text
    for found, expected in zip(first, plain, strict=True):
        torch.testing.assert_close(found, expected)


def halves(batch, size):
    """Passes of so many of the eight rows each."""
    old = torch.linspace(-6, -3, 40).view(8, 5)
    tensors = batch | {"old_per_token_logps": old, "ref_per_token_logps": old - 0.1}
    credit = torch.tensor([1.0, 0.5, -0.5, 2.0, -1.0, 0.25, 1.5, 0.75])
    rows = samples_of([Turn(Rollout("prover", [], [""] * 8, tensors=tensors), credit)], 0)
    return [Pass((("prover", rows[i : i + size]),)) for i in range(0, 8, size)]


def loss_and_gradient(trainer, passes, shared):
    heads = [m for m in trainer.policies.module.modules() if "shared_prefix" in vars(m)]
    ours = [Counted(head, always=True) if shared else None for head in heads]
    for head, one in zip(heads, ours, strict=True):
        head.shared_prefix = one
    total, found = gradients(trainer, passes)
    assert not shared or sum(one.packed for one in ours) >= len(passes)
    return total, found[trainer.policies.weights_of["prover"]]


def same_gradient(trainer, passes):
    (total, plain), (of_shared, shared) = (loss_and_gradient(trainer, passes, way) for way in (False, True))
    assert of_shared == pytest.approx(total, rel=1e-5)
    assert (shared - plain).norm() <= 1e-5 * plain.norm() and plain.norm() > 0


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """With KL and entropy in the loss, in float32; pass_at_k wants groups of more than 4."""
    settings = dict(prover_beta=0.05, prover_entropy_coef=0.01, num_generations=8)
    settings |= {"prover_objective": "expert_iteration"}  # the head also says which tokens are the likeliest
    return make_trainer(tmp_path_factory.mktemp("plain"), **settings)


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_the_gradient_of_each_objective_is_that_of_the_plain_path(plain, name):
    """Groups split over two passes."""
    plain.learners["prover"].loss.objective = make_objective(name)
    same_gradient(plain, halves(batch_of([0, 1, 0, 0, 1, 2, 1, 1], True), 4))


@pytest.mark.parametrize("sharing", ["lora", "tied"])
def test_the_gradient_of_adapters_and_of_shared_weights_is_that_of_the_plain_path(tmp_path, sharing):
    extra = {"peft_config": LORA} if sharing == "lora" else {}
    trainer = make_trainer(tmp_path, policy_sharing=sharing, prover_beta=0.05, trainer=extra)
    same_gradient(trainer, halves(batch_of([0] * 8, False), 8))


def test_a_run_with_shared_prompts_ends_where_one_without_ends(tmp_path):
    ends = []
    for mode in ("off", "on"):
        trainer = make_trainer(tmp_path / mode, max_steps=2, shared_prefix=mode, prover_beta=0.05)
        assert trainer.policies.shares_prompts == (mode == "on")
        trainer.train()
        ends.append(weights(trainer))
    for name, value in ends[0].items():
        torch.testing.assert_close(value, ends[1][name], rtol=1e-3, atol=1e-3)
