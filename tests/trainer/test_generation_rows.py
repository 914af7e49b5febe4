# Tests: policies/full.py, training/rollouts.py, config/generation_rules.py
"""A turn of more rows than one call of `generate` takes (`generation_rows`)."""

import pytest
import torch

from countdown_selfplay.config.changes import run_settings
from countdown_selfplay.errors import ConfigError
from countdown_selfplay.policies import full
from tests.joint_config import joint_config


@pytest.mark.parametrize("sharing", ["full", "lora"])
def test_a_turn_takes_as_many_calls_as_its_rows_need_and_one_that_fits_draws_as_ever(build, monkeypatch, sharing):
    """8 problems x 4 answers, of which 14 rows are three groups; one problem x 20."""
    trainer, calls, plain = build(policy_sharing=sharing), [], full.without_idle_rows

    def counted(model, given):
        calls.append(len(given["input_ids"]))
        return plain(model, given)

    def turn(rows, count, n):
        calls.clear()
        trainer.args.generation_rows = rows
        rows = [dict(trainer.train_dataset[i]) for i in range(count)]
        round, problems = trainer.round_loop.begin(rows), [trainer.domain.problem(row) for row in rows]
        found = round.sample("prover", [trainer.domain.prove_row(p) for p in problems], n, problems)
        return calls.copy(), found.texts, found.tensors

    monkeypatch.setattr(full, "without_idle_rows", counted)
    (cut, texts, tensors), (fits, *_, same), (whole, *_, ever) = (turn(rows, 8, 4) for rows in (14, 32, 1024))
    assert cut == [12, 12, 8] and fits == whole == [32]
    assert len(texts) == 32 and tensors["completion_mask"].any(1).all() and len(set(texts[:12])) > 1
    assert all(torch.equal(value, ever[name]) for name, value in same.items())
    assert turn(14, 1, 20)[0] == [14, 6]


def test_the_rows_of_a_call_are_a_setting_of_the_run_and_of_generate_alone():
    assert run_settings(joint_config("unused", use_cpu=True).to_dict(), [], [], {})["generation_rows"] == 1024
    with pytest.raises(ConfigError, match=r"`generation_rows` \(0\) must be .* at least 1: rows of a call"):
        joint_config("unused", use_cpu=True, generation_rows=0)
    with pytest.raises(ConfigError, match=r"`generation_rows` \(7\) is read under generation_backend=generate only"):
        joint_config("unused", use_cpu=True, generation_rows=7, generation_backend="vllm")
