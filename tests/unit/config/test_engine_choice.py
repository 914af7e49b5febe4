"""Which engine a launch asks for, and the launches that are refused before a model loads."""

import pytest
from tests.trainer.conftest import make_config, make_trainer

from countdown_selfplay.engines import FsdpEngine, ZeroEngine, choose_engine
from countdown_selfplay.errors import ConfigError

ZERO2 = {"zero_optimization": {"stage": 2}}


@pytest.fixture
def args(tmp_path, monkeypatch):
    for name in (
        "ACCELERATE_USE_FSDP",
        "FSDP_VERSION",
        "FSDP_CPU_RAM_EFFICIENT_LOADING",
        "FSDP_ACTIVATION_CHECKPOINTING",
    ):
        monkeypatch.delenv(name, raising=False)
    return make_config(tmp_path)


def test_no_launcher_means_one_process_or_ddp(args):
    assert choose_engine(args).name == "ddp"


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_the_stage_names_the_engine_and_only_stage_3_shards_weights(args, stage):
    args.deepspeed = {"zero_optimization": {"stage": stage}}
    engine = choose_engine(args)
    assert engine.name == f"zero{stage}" and engine.shards_weights == (stage == 3)


def test_a_deepspeed_config_is_read_from_a_file_too(args, tmp_path):
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 3}}')
    args.deepspeed = str(tmp_path / "ds.json")
    assert choose_engine(args).name == "zero3"


@pytest.mark.parametrize("block", ["optimizer", "scheduler"])
def test_a_deepspeed_config_with_an_optimizer_or_a_scheduler_is_refused(args, block):
    args.deepspeed = {**ZERO2, block: {"type": "AdamW"}}
    with pytest.raises(ConfigError, match=f"a block `{block}`.*remove it"):
        choose_engine(args)


def test_different_clips_are_refused_where_one_clip_holds_for_all(tmp_path):
    args = make_config(tmp_path, prover_max_grad_norm=1.0, conjecturer_max_grad_norm=0.2)
    assert choose_engine(args).name == "ddp"  # each role is clipped by itself there
    args.deepspeed = ZERO2
    with pytest.raises(ConfigError, match=r"`prover_max_grad_norm` \(1.0\) and `conjecturer_max_grad_norm` \(0.2\)"):
        choose_engine(args)


def test_fsdp_version_1_is_refused(args, monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    with pytest.raises(ConfigError, match="FSDP version 1 is not supported"):
        choose_engine(args)


def test_fsdp_2_is_chosen_and_its_switches_that_lose_weights_are_refused(args, monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    monkeypatch.setenv("FSDP_VERSION", "2")
    assert choose_engine(args).name == "fsdp2" and choose_engine(args).shards_weights
    for name in ("FSDP_CPU_RAM_EFFICIENT_LOADING", "FSDP_ACTIVATION_CHECKPOINTING"):
        monkeypatch.setenv(name, "true")
        with pytest.raises(ConfigError, match=f"`{name.lower()}`"):
            choose_engine(args)
        monkeypatch.delenv(name)


def test_processes_that_do_not_know_of_each_other_are_refused(tmp_path, monkeypatch):
    trainer = make_trainer(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "2")  # as a launcher sets it; accelerate's state in this process says 1
    with pytest.raises(ConfigError, match="started 2 processes and each knows of 1"):
        trainer.engine.check(trainer)


@pytest.mark.parametrize("engine", ["fsdp2", "zero2"])
def test_an_engine_that_accelerate_did_not_start_is_an_error_and_no_fallback(tmp_path, engine):
    trainer = make_trainer(tmp_path)  # one process without any engine
    with pytest.raises(ConfigError, match=r"The launch asked for .* and accelerate started DistributedType\.NO"):
        (FsdpEngine() if engine == "fsdp2" else ZeroEngine(2)).check(trainer)
