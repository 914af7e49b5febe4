# Tests: policies/narrow.py, distributed/ddp.py
"""Frozen linear layers in bf16 beside the float32 ones that they were: equal bits under autocast."""

import pytest
import torch
from peft import LoraConfig
from safetensors.torch import load_file

from countdown_selfplay.distributed import ddp
from countdown_selfplay.policies.narrow import NarrowLinear, frozen_linears, narrow
from countdown_selfplay.tiny import load_tiny_model
from tests.trainer.conftest import equal, make_trainer, ran, rounds, weights


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
