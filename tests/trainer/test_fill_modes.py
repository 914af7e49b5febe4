# Tests: curriculum/admission.py, games/propose_and_solve.py, games/settings.py
"""Rounds that play nothing but the conjecturer's problems, or all of them: real steps on the tiny model."""

import pytest

from countdown_selfplay.errors import ConfigError

from .conftest import equal, make_config, on_sample, ran, rounds, weights

PURE = dict(max_steps=3, anchor_fraction=0.0, fill="none", learning_rate=1e-4)


def played(trainer):
    """Problems per round that the prover was asked."""
    found = []
    on_sample(trainer, lambda role, rollout: found.append(len(rollout.rows)) if role == "prover" else None)
    return found


def test_no_fill_plays_no_problem_of_the_data_set(build):
    trainer = build(**PURE)
    asked = played(trainer)
    trainer.train()
    lines = rounds(trainer.args.output_dir)
    assert asked == [line["round/conjectured_slots"] for line in lines] and 0 < max(asked) <= 8
    assert all(line["round/anchor_slots"] == 0 and "round/anchor_solve_rate_mean" not in line for line in lines)
    assert [line["prover/trained_samples"] for line in lines] == [4 * n for n in asked]


def test_a_round_without_any_problem_moves_no_weight_and_logs_no_rate(build):
    """The conjecturer writes nothing that can be played: the prover has no row at all."""
    trainer = build(**{**PURE, "max_steps": 2}, beta=0.05, log_completions=True)
    object.__setattr__(trainer.domain, "solvable_batch", lambda problems: [False for _ in problems])
    before = weights(trainer)
    trainer.train()
    lines = rounds(trainer.args.output_dir)
    assert [line["round/starved"] for line in lines] == [1, 1]
    assert not any("prover/correct_rate" in line or "prover/reward" in line for line in lines)
    assert [line["prover/trained_samples"] for line in lines] == [0, 0] and equal(before, weights(trainer))


def test_truncation_without_a_mix_plays_no_data(build):
    trainer = build(max_steps=3, anchor_fraction=0.0, fill="truncate", truncate_multiple=4)
    asked = played(trainer)
    trainer.train()
    assert set(asked) <= {0, 4, 8}
    assert all(line["round/anchor_slots"] == 0 for line in rounds(trainer.args.output_dir))


def test_keep_all_plays_every_admitted_proposal(build):
    """16 proposals, a half fixed, multiple of 4: at most 32 problems of 4 answers, 8 micro-batches of 16."""
    trainer = ran(build(max_steps=3, prover_micro_batches=8, fill="keep_all", truncate_multiple=4, learning_rate=1e-4))
    for line in rounds(trainer.args.output_dir):
        admitted = round(16 * line["conjecturer/admitted_rate"])
        assert line["round/conjectured_slots"] == admitted
        assert line["round/anchor_slots"] == -(-(admitted + max(admitted, 4)) // 4) * 4 - admitted


def test_a_capacity_that_cannot_hold_all_is_refused_with_the_worst_case(tmp_path):
    # 16 proposals and 16 anchors of 4 answers are 128 samples, 8 micro-batches of 16; 2 hold 8 problems
    with pytest.raises(
        ConfigError, match=r"`prover_micro_batches` \(2\) holds 8 problems.*may play 32: 16.*raise it to 8"
    ):
        make_config(tmp_path, fill="keep_all", truncate_multiple=4)


def test_fixed_data_cannot_be_asked_for_where_none_is_played(tmp_path):
    with pytest.raises(ConfigError, match=r"`anchor_fraction` \(0.5\).*fill=none plays none"):
        make_config(tmp_path, fill="none")
