# Tests: policies/full.py, training/rollouts.py, config/generation_rules.py
"""A turn of more rows than one call of `generate` takes (`generation_rows`)."""

import pytest
import torch

from countdown_selfplay.config.changes import run_settings
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.policies import full
from tests.joint_config import joint_config
from tests.trainer.conftest import make_trainer, on_sample, ran
from tests.trainer.test_round import LORA


def turns_of(folder, monkeypatch, sharing="full", **changes):
    """Rows of each call, and the tokens of each role's turn, of one round."""
    calls, turns, plain = [], {}, full.without_idle_rows

    def counted(model, arguments):
        calls.append(len(arguments["input_ids"]))
        return plain(model, arguments)

    monkeypatch.setattr(full, "without_idle_rows", counted)
    extra = {"peft_config": LORA} if sharing == "lora" else {}
    trainer = make_trainer(folder, max_steps=1, policy_sharing=sharing, trainer=extra, **changes)
    on_sample(trainer, lambda role, rollout: turns.setdefault(role, rollout))
    ran(trainer)
    monkeypatch.setattr(full, "without_idle_rows", plain)
    return calls, turns


@pytest.mark.parametrize("sharing", ["full", "lora"])
def test_a_turn_takes_as_many_calls_as_its_rows_need_and_one_that_fits_draws_as_ever(tmp_path, monkeypatch, sharing):
    """16 proposals to one prompt, and 8 problems x 4 answers, of which 14 rows are three groups."""
    calls, turns = turns_of(tmp_path / "cut", monkeypatch, sharing, generation_rows=14)
    assert calls == [14, 2, 12, 12, 8]
    assert [len(turns[role].texts) for role in ("conjecturer", "prover")] == [16, 32]
    assert turns["prover"].tensors["completion_mask"].any(1).all()
    if sharing == "lora":
        return
    (whole, same), (calls, fits) = (
        turns_of(tmp_path / f"{rows}", monkeypatch, sharing, generation_rows=rows) for rows in (1024, 32)
    )
    assert whole == calls == [16, 32]
    for role, rollout in same.items():
        assert all(torch.equal(value, fits[role].tensors[name]) for name, value in rollout.tensors.items())
    assert len(set(turns["conjecturer"].texts[:14])) > 1 and turns["conjecturer"].texts != same["conjecturer"].texts


def test_the_rows_of_a_call_are_a_setting_of_the_run_and_of_generate_alone():
    args = joint_config("unused", use_cpu=True, generation_rows=7)
    assert run_settings(args.to_dict(), [], [], {})["generation_rows"] == 7
    with pytest.raises(ConfigError, match=r"`generation_rows` \(0\) must be .* at least 1: a call has a row"):
        joint_config("unused", use_cpu=True, generation_rows=0)
    with pytest.raises(ConfigError, match=r"`generation_rows` \(7\) is read under generation_backend=generate only"):
        joint_config("unused", use_cpu=True, generation_rows=7, generation_backend="vllm")
