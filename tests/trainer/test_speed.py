# Tests: objectives/rloo.py, policies/forward.py, training/plan.py, training/round_loop.py, distributed/ddp.py
"""What the trainer leaves out for speed changes no number: each saving against the plain computation."""

import pytest
import torch
from peft import LoraConfig
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from countdown_selfplay.contract.round import Rollout, Turn
from countdown_selfplay.distributed import ddp
from countdown_selfplay.distributed.ddp import NarrowLinear, frozen_linears, narrow
from countdown_selfplay.objectives.rloo import RLOO
from countdown_selfplay.policies.forward import scored_at
from countdown_selfplay.tiny import TINY_MODEL_PATH, load_tiny_model
from countdown_selfplay.training.plan import samples_of
from tests.trainer.conftest import equal, gradients, make_trainer, ran, rounds, weights
from tests.trainer.test_round import LORA


def tiny():
    return AutoModelForCausalLM.from_pretrained(str(TINY_MODEL_PATH), dtype=torch.float32)


def prompts(lengths, repeats):
    """Left-padded rows of arbitrary tokens, each prompt `repeats` times."""
    ids, mask = torch.zeros(len(lengths), max(lengths), dtype=torch.long), torch.zeros(len(lengths), max(lengths))
    for row, length in enumerate(lengths):
        ids[row, -length:] = torch.arange(3, 3 + length) + row
        mask[row, -length:] = 1
    return ids.repeat_interleave(repeats, 0), mask.long().repeat_interleave(repeats, 0)


def scored(model, ids, mask, completion):
    labels = ids.masked_fill(mask == 0, -100)
    labels[:, :-completion] = -100
    output = model(input_ids=ids, attention_mask=mask, labels=labels, fused_lm_head=True)
    return output.log_probs[:, -completion:], output.entropy[:, -completion:]


@pytest.mark.parametrize("padding_free", [False, True])
def test_scores_and_gradients_are_those_of_the_plain_forward_pass(padding_free):
    """Against log-softmax of the model's own logits. Packed rows need an attention that keeps them apart: sdpa does
    when it is handed positions and no mask."""
    ids, mask = prompts([3, 7, 5], 2)
    ids = torch.cat([ids, torch.randint(3, 90, (6, 4), generator=torch.Generator().manual_seed(0))], 1)
    mask = torch.cat([mask, torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 0]] + [[1] * 4] * 2)], 1)
    plain, model = tiny(), tiny()
    scored_at(model, temperature=0.7)
    model.padding_free = padding_free
    logps, entropies = scored(model, ids, mask, 4)
    logits = plain(input_ids=ids, attention_mask=mask).logits[:, -5:-1] / 0.7
    expected = logits.log_softmax(-1).gather(2, ids[:, -4:, None])[..., 0]
    kept = mask[:, -4:]
    torch.testing.assert_close(logps * kept, expected * kept, rtol=1e-4, atol=1e-4)
    spread = -(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1)
    torch.testing.assert_close(entropies * kept, spread * kept, rtol=1e-4, atol=1e-4)
    (logps * kept).sum().backward()
    (expected * kept).sum().backward()
    for ours, reference in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, reference.grad, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("credit", [[1.0, 0, -0.5, 0, 0, 2.0, 0, 0], [0.0] * 8])
@pytest.mark.parametrize("sharing", ["full", "lora"])
def test_rows_without_credit_are_measured_but_not_trained_on_and_the_gradient_is_the_same(tmp_path, sharing, credit):
    extra = {"peft_config": LORA} if sharing == "lora" else {}
    trainer = make_trainer(tmp_path, policy_sharing=sharing, trainer=extra)
    g = torch.Generator().manual_seed(1)
    mask = (torch.arange(5) < torch.tensor([5, 1, 3, 2, 5, 4, 3, 0])[:, None]).long()
    tensors = {
        "prompt_ids": torch.randint(3, 90, (8, 6), generator=g), "prompt_mask": torch.ones(8, 6, dtype=torch.long),
        "completion_ids": torch.randint(3, 90, (8, 5), generator=g), "completion_mask": mask,
    }  # fmt: skip
    samples = samples_of([Turn(Rollout("prover", [], [""] * 8, tensors=tensors), torch.tensor(credit))], 0)
    found = []
    for proportional in (True, False):
        trainer.learners["prover"].objective.proportional = proportional
        passes = trainer.round_loop.planner.step({"prover": samples}).passes
        graphs = [one.graph for one in passes]
        assert graphs == (([True, False] if proportional else [True]) if any(credit) else [False])
        loss, grads = gradients(trainer, passes)
        sums = trainer.learners["prover"].loss.pop_sums()
        found.append((loss, grads, {name: float(value) for name, value in sums.items()}))
    (loss, apart, sums), (whole, together, all_sums) = found
    assert (
        loss == pytest.approx(whole, rel=1e-4) and apart.keys() == together.keys() and sums.keys() == all_sums.keys()
    )
    assert list(apart) == ([trainer.policies.weights_of["prover"]] if any(credit) else [])
    for name, value in together.items():
        torch.testing.assert_close(apart[name], value, rtol=1e-4, atol=1e-6)
    for name, value in all_sums.items():
        assert sums[name] == pytest.approx(value, rel=1e-4, abs=1e-6), name


def proportional(trainer, role):
    return trainer.learners[role].loss.proportional


def test_a_users_own_loss_or_a_regulariser_keeps_every_row(tmp_path):
    class Mine(RLOO):
        def loss(self, inputs):
            return super().loss(inputs)

    trainer = make_trainer(tmp_path / "a", trainer={"objectives": {"prover": Mine()}})
    assert not proportional(trainer, "prover") and proportional(trainer, "conjecturer")
    assert not proportional(make_trainer(tmp_path / "b", entropy_coef=0.01), "prover")
    assert not proportional(make_trainer(tmp_path / "c", beta=0.1), "prover")
    assert proportional(make_trainer(tmp_path / "d", beta=0.1, kl_in="reward"), "prover")


@pytest.mark.parametrize("shared", [False, True])
def test_reference_passes_of_long_completions_leave_padding_out_and_change_no_log_prob(tmp_path, shared):
    """Rows of 66, 1, 30, 0 and 40 tokens, two a pass: longest first, each pass as wide as it must be; rows that share
    prompts stay where they are."""
    trainer = make_trainer(tmp_path, beta=0.1, per_device_train_batch_size=2, max_completion_length=66)
    trainer.policies.shares_prompts = shared
    g, said, asked = torch.Generator().manual_seed(1), torch.tensor([66, 1, 30, 0, 40]), torch.tensor([5, 9, 7, 7, 6])
    tensors = {
        "prompt_ids": torch.randint(3, 90, (5, 9), generator=g),
        "completion_ids": torch.randint(3, 90, (5, 66), generator=g),
        "prompt_mask": (torch.arange(9) >= 9 - asked[:, None]).long(),
        "completion_mask": (torch.arange(66) < said[:, None]).long(),
    }  # fmt: skip
    widths, score = [], trainer._get_per_token_logps_and_entropies

    def counted(model, ids, mask, length, **more):
        widths.append((len(ids), ids.size(1), length))
        return score(model, ids, mask, length, **more)

    trainer._get_per_token_logps_and_entropies = counted
    model, mask = trainer.policies.module, tensors["completion_mask"]
    with trainer.policies.active("prover"):
        found = trainer.rollouts.log_probs(model, tensors)
        rows = ({name: value[row : row + 1] for name, value in tensors.items()} for row in range(5))
        alone = [trainer.rollouts.log_probs(model, one)[0] for one in rows]
    sorted_ = [(2, 6 + 66, 66), (2, 9 + 30, 30), (1, 8, 1)]
    assert widths[:3] == ([(2, 9 + 66, 66), (2, 7 + 30, 30), (1, 6 + 40, 40)] if shared else sorted_)
    assert found.shape == (5, 66)
    torch.testing.assert_close(found * mask, torch.stack(alone) * mask, rtol=0, atol=1e-5)


def narrowed(trainer):
    modules = [trainer.policies.module, *trainer.policies.frozen_copies]
    return [part for module in modules for part in module.modules() if isinstance(part, NarrowLinear)]


@pytest.mark.parametrize(
    ("changes", "layers"),
    [  # 7 linear layers in each of the tiny model's 3: of the base; of a frozen player and the other's reference
        (dict(policy_sharing="lora", beta=0.05), 21),
        (dict(policy_sharing="full", prover_beta=0.05, conjecturer_weights="start"), 42),
    ],
    ids=["lora", "full"],
)
def test_a_run_with_narrow_frozen_layers_is_that_with_float32_ones_bit_for_bit(changes, layers, tmp_path, monkeypatch):
    found = []
    for way in (narrow, lambda module: module):
        monkeypatch.setattr(ddp, "narrow", way)
        adapter = LoraConfig(r=4, target_modules="all-linear") if changes["policy_sharing"] == "lora" else None
        output = tmp_path / str(len(found))
        given = dict(bf16=True, max_steps=1, per_device_train_batch_size=8, conjecturer_num_generations=8, **changes)
        trainer = ran(make_trainer(output, trainer=dict(peft_config=adapter), **given))
        assert all(sound for *_, sound in trainer.exports.write_last(output))
        exported = {file.relative_to(output): load_file(file) for file in output.glob("*/*.safetensors")}
        found.append((weights(trainer), rounds(output), exported, len(narrowed(trainer))))
    (ours, our_rounds, our_files, count), (plain, rounds_before, files_before, none) = found
    assert (count, none) == (layers, 0)
    assert equal(ours, plain) and our_rounds == rounds_before
    assert our_files.keys() == files_before.keys() != set()
    assert all(equal(our_files[name], files_before[name]) for name in our_files)


def test_what_bf16_does_not_hold_stays_in_the_state_dict_and_outside_autocast_inputs_keep_their_type():
    model = load_tiny_model()[0].requires_grad_(False)
    with torch.no_grad():
        exact, lossy, *_ = frozen_linears(model)
        exact.weight.copy_(exact.weight.bfloat16())
        before = {name: value.clone() for name, value in model.state_dict().items()}
        narrow(model)
        assert exact.exact == {} and [*lossy.exact] == ["weight"]
        assert {exact.weight.dtype, lossy.weight.dtype} == {torch.bfloat16}
        assert model.get_output_embeddings().weight.dtype == torch.float32
        assert equal({name: value.float() for name, value in model.state_dict().items()}, before)
        assert model(input_ids=torch.tensor([[1, 5, 9]])).logits.dtype == torch.float32
        lossy.weight.add_(1)  # as a merged adapter does: the numbers of before are not those of the layer
        assert torch.equal(lossy.state_dict()["weight"], lossy.weight)


def test_layers_that_take_gradients_and_heads_are_left_alone():
    model = load_tiny_model()[0].requires_grad_(False)
    first, *others = frozen_linears(model)
    assert all(part is not model.get_output_embeddings() for part in (first, *others))
    first.weight.requires_grad_(True)
    assert len(frozen_linears(model)) == len(others)
