# Tests: benchmarks/step_overhead.py, benchmarks/two_processes.py, benchmarks/round_overhead.py
"""The benchmarks that train: what they time is what they say, and what they refuse is one sentence."""

import pytest


@pytest.mark.parametrize("asked", [["--lora", "4"], [], ["--no_gradient_checkpointing"]], ids=str)
def test_the_update_recomputes_each_layers_activations_once(bench, tmp_path, asked):
    """The counter: in a step of two micro-batches a layer runs twice per micro-batch, forward and again in backward;
    without recomputation once."""
    train_only = bench("train_only")
    options = train_only.parser().parse_args(["--model", "tiny", "--batch", "2", "--sequence_length", "16", *asked])
    trainer = train_only.build(options, str(tmp_path))
    wrapped = train_only.ready(trainer)
    expected = 1 if "--no_gradient_checkpointing" in asked else 2
    layers = train_only.recomputing(trainer.model)
    assert len(layers) == 3 and set(layers.values()) == {expected == 2}  # the tiny model has three layers
    batch = train_only.rows(2, 16, 100, False)
    train_only.backward(trainer, wrapped, [batch])  # with it goes the check of how the model reads rows
    ran = []
    for name, module in trainer.model.named_modules():
        if name.endswith(".mlp"):
            module.register_forward_pre_hook(lambda *_, name=name: ran.append(name))
    train_only.backward(trainer, wrapped, [batch] * 2)
    assert {ran.count(name) for name in ran} == {2 * expected} and len(set(ran)) == 3
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in trainer.model.parameters())
