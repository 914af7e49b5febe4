# Tests: distributed/choose.py, distributed/sharded.py
"""Which engine a launch asks for, and the launches that are refused before a model loads."""

import pytest
import torch
from tests.trainer.conftest import make_config, make_trainer

from countdown_selfplay.distributed.choose import choose_engine
from countdown_selfplay.distributed.sharded import (
    FsdpEngine,
    Hold,
    ZeroEngine,
    fill_optimizer_state,
    full_precision_outputs,
)
from countdown_selfplay.errors import ConfigError


@pytest.fixture
def args(tmp_path, monkeypatch):
    for name in (
        "ACCELERATE_USE_FSDP", "FSDP_VERSION", "FSDP_CPU_RAM_EFFICIENT_LOADING", "FSDP_ACTIVATION_CHECKPOINTING",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    return make_config(tmp_path)


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_the_stage_names_the_engine_and_only_stage_3_shards_weights_in_a_file_too(args, tmp_path, stage):
    given, file = {"zero_optimization": {"stage": stage}}, tmp_path / "ds.json"
    file.write_text(f'{{"zero_optimization": {{"stage": {stage}}}}}')
    for args.deepspeed in (given, str(file)):
        engine = choose_engine(args)
        assert engine.name == f"zero{stage}" and engine.shards_weights == (stage == 3)


def test_an_optimizer_on_the_cpu_is_for_one_policy_and_clips_differ_under_ddp(tmp_path):
    """DeepSpeed 0.19.8 then moved the role of the last micro-batch only (measured: the other's weights stayed)."""
    offload = {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    tied = make_config(tmp_path, policy_sharing="tied")
    tied.deepspeed = offload
    assert choose_engine(tied).name == "zero2"
    args = make_config(tmp_path, prover_max_grad_norm=1.0, conjecturer_max_grad_norm=0.2)
    assert choose_engine(args).name == "ddp"  # each role is clipped by itself there
    args = make_config(tmp_path)
    args.deepspeed = {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "none"}}}
    assert choose_engine(args).name == "zero2"


def test_fsdp_is_version_2_by_arguments_and_where_the_launcher_says_so(args, monkeypatch):
    """transformers cuts the prefix fsdp_ off the keys and takes version 2 where none is named."""
    args.fsdp = True
    for given in ({}, {"version": 2}):
        args.fsdp_config = given
        assert choose_engine(args).name == "fsdp2"
    args.fsdp = False
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    monkeypatch.setenv("FSDP_VERSION", "2")
    assert choose_engine(args).name == "fsdp2" and choose_engine(args).shards_weights


def test_mixed_precision_of_fsdp_leaves_what_the_module_returns_in_float32():
    """accelerate 1.15 would cast log-probs to bf16, in which a sum of -500 has a spacing of 2 (8 bits of mantissa)."""
    from accelerate.utils import FullyShardedDataParallelPlugin

    plugin = FullyShardedDataParallelPlugin(fsdp_version=2)
    plugin.set_mixed_precision("bf16")
    stock = plugin.mixed_precision_policy
    assert stock.output_dtype == torch.bfloat16  # or this test asserts nothing
    mended = full_precision_outputs(stock)
    assert mended.output_dtype is None and mended.param_dtype == stock.param_dtype == torch.bfloat16
    assert full_precision_outputs(None) is None


def test_parameters_that_never_stepped_get_the_state_of_step_0():
    a, b = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    optimizer = torch.optim.AdamW([a, b], lr=0.1)
    fill_optimizer_state(optimizer)
    assert not any(optimizer.state.values())  # nobody has stepped: torch fills that in itself
    a.grad = torch.ones(2)
    optimizer.step()
    fill_optimizer_state(optimizer)
    assert float(optimizer.state[b]["step"]) == 0 and torch.equal(optimizer.state[b]["exp_avg"], torch.zeros(2))
    # b's first step is then the one it would have taken anyway: AdamW's first step is the learning rate, plus decay
    b.grad = torch.full((2,), 3.0)
    a.grad = None
    optimizer.step()
    torch.testing.assert_close(b.detach(), torch.full((2,), 1 - 0.1 - 0.1 * 0.01))


def test_a_held_role_keeps_weights_and_moments_and_has_those_of_step_0_where_it_never_stepped():
    stepped, new, free = (torch.nn.Parameter(torch.ones(2)) for _ in range(3))
    held = {"params": [stepped, new], "role": "prover"}
    optimizer, hold = torch.optim.AdamW([held, {"params": [free], "role": "conjecturer"}], lr=0.1), Hold({"prover"})
    stepped.grad = torch.ones(2)
    optimizer.step()  # by the learning rate, plus decay; the first moment is a tenth of the gradient
    optimizer.register_step_pre_hook(hold.before)
    optimizer.register_step_post_hook(hold.after)
    stepped.grad = new.grad = free.grad = torch.ones(2)
    optimizer.step()
    found = [(p[0].item(), optimizer.state[p]["exp_avg"][0].item()) for p in (stepped, new, free)]
    assert sum(found, ()) == pytest.approx((0.899, 0.1, 1.0, 0.0, 0.899, 0.1), abs=1e-6)
    assert [optimizer.state[p]["step"].item() for p in (stepped, new, free)] == [1, 0, 1] and held["lr"] == 0.1


def test_processes_that_do_not_know_of_each_other_are_refused(tmp_path, monkeypatch):
    trainer = make_trainer(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "2")  # as a launcher sets it; accelerate's state in this process says 1
    with pytest.raises(ConfigError, match="started 2 processes and each knows of 1"):
        trainer.engine.bind(trainer.accelerator, trainer.policies, 1.0)


@pytest.mark.parametrize("engine", ["fsdp2", "zero2"])
def test_an_engine_that_accelerate_did_not_start_is_an_error_and_no_fallback(tmp_path, engine):
    trainer = make_trainer(tmp_path)  # one process without any engine
    with pytest.raises(ConfigError, match=r"The launch asked for .* and accelerate started DistributedType\.NO"):
        (FsdpEngine() if engine == "fsdp2" else ZeroEngine(2)).bind(trainer.accelerator, trainer.policies, 1.0)
