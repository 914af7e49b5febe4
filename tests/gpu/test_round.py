# Tests: training/round.py
"""Joint rounds on a GPU: bf16, recomputed activations, TRL's kernel for the log-probs."""

import math

import pytest
import torch
from transformers.modeling_layers import GradientCheckpointingLayer

from tests.trainer.conftest import make_trainer, rounds, weights
from tests.trainer.test_round import LORA

from .conftest import GPU

pytestmark = pytest.mark.gpu


def build(folder, sharing="full", **changes):
    extra = {"peft_config": LORA} if sharing == "lora" else {}
    return make_trainer(folder, policy_sharing=sharing, trainer=extra, **{**GPU, "max_steps": 3, **changes})


@pytest.mark.parametrize("sharing", ["full", "lora", "tied"])
@pytest.mark.parametrize("beta", [0.0, 0.05])
def test_a_bf16_round_with_checkpointing_moves_every_role_and_stays_finite(tmp_path, sharing, beta):
    # A rate at which the conjecturer goes on writing problems: without one in a round it has no gradient there.
    steady = dict(learning_rate=1e-4, entropy_coef=0.01)
    trainer = build(tmp_path, sharing, bf16=True, gradient_checkpointing=True, beta=beta, **steady)
    accelerator = trainer.accelerator
    assert (accelerator.mixed_precision, accelerator.device.type) == ("bf16", trainer.args.device.type)
    before = weights(trainer)
    trainer.train()
    layers = [m for m in trainer.model.modules() if isinstance(m, GradientCheckpointingLayer)]
    assert layers and all(layer.gradient_checkpointing for layer in layers)
    after = weights(trainer)
    assert all(tensor.dtype == torch.float32 and torch.isfinite(tensor).all() for tensor in after.values())
    for name in trainer.policies.weight_names:
        own = [key for key in before if key.startswith(f"{name}:")]
        moved = [key for key in own if not torch.equal(before[key], after[key])]
        assert len(moved) >= 0.9 * len(own), f"{name}: {len(moved)} of {len(own)} tensors moved"
    lines = rounds(tmp_path)
    assert len(lines) == 3
    for line in lines:
        broken = {k: v for k, v in line.items() if isinstance(v, float) and not math.isfinite(v)}
        assert not broken, broken
        norms = [value for key, value in line.items() if key.startswith("grad_norm/")]
        assert len(norms) == len(trainer.policies.weight_names) and min(norms) > 0, line


def test_the_kernels_log_probs_and_gradients_are_those_of_plain_logits(tmp_path):
    """On a GPU TRL folds tiles of logits in a Triton kernel. float32, temperature 0.7; the kernel's products may be
    rounded to TF32, 10 bits: log-probs of size 5 to about 5e-3."""
    trainer = build(tmp_path, temperature=0.7, bf16=False)
    model = trainer.policies.module.policies["prover"].to(trainer.accelerator.device)
    trainer.policies.activate("prover")
    ids = torch.randint(3, 113, (4, 20), generator=torch.Generator().manual_seed(0)).to(model.device)
    mask = torch.ones_like(ids)
    found, entropies, *_ = trainer._get_per_token_logps_and_entropies(model, ids, mask, 8, compute_entropy=True)
    (gradient,) = torch.autograd.grad(found.sum(), model.get_input_embeddings().weight)
    logits = model(input_ids=ids, attention_mask=mask).logits[:, 11:-1].float() / 0.7
    plain = logits.log_softmax(-1)
    expected = plain.gather(-1, ids[:, 12:, None])[..., 0]
    torch.testing.assert_close(found, expected, rtol=0, atol=5e-3)
    torch.testing.assert_close(entropies, -(plain.exp() * plain).sum(-1), rtol=0, atol=5e-3)
    (wanted,) = torch.autograd.grad(expected.sum(), model.get_input_embeddings().weight)
    assert float((gradient - wanted).norm() / wanted.norm()) < 1e-2


def test_a_run_is_repeated_by_its_seed(tmp_path):
    """Sampling, rewards and losses of the first round; the update itself may sum in another order on a GPU."""
    lines = []
    for name in ("one", "two"):
        build(tmp_path / name, bf16=True, max_steps=1).train()
        lines.append(rounds(tmp_path / name)[0])
    for key in ("prover/reward", "conjecturer/reward", "prover/completion_length", "prover/entropy"):
        assert lines[0][key] == pytest.approx(lines[1][key], rel=1e-3), key
