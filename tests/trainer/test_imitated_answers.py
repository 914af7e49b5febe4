# Tests: training/round_player.py, training/learners.py
"""Imitation of own right answers in a real run: which are kept, and an update that is alike however it is computed."""

import pytest
import torch

from .conftest import equal, make_trainer, optimizer_state, rounds, weights
from .test_moves import build as build_moves

IMITATES = dict(prover_imitated_per_step=8, prover_sft_coef=1.0, conjecturer_micro_batches=0, seed=8)


def moved(trainer):
    before = weights(trainer)
    trainer.train()
    return {name: value - before[name] for name, value in weights(trainer).items()}


def alike(first, second):
    assert max(value.abs().max() for value in first.values()) > 1e-5
    for name, value in first.items():
        # differences of float32 weights of size 1, whose spacing is 1.2e-7
        assert torch.allclose(value, second[name], rtol=1e-3, atol=5e-7), name


SGD = dict(max_steps=1, optim="sgd", max_grad_norm=0.0)


def test_the_update_depends_neither_on_micro_batches_nor_on_shared_prompts(tmp_path):
    """32 answers and 8 imitated ones as 3 x 16 rows and as 12 x 4; with prompts read once and with each its own."""
    base = dict(IMITATES, **SGD, prover_samples_per_round=32, prover_sequences_per_step=32)
    whole = moved(make_trainer(tmp_path / "a", prover_micro_batches=3, shared_prefix="off", **base))
    cut = dict(per_device_train_batch_size=4, prover_micro_batches=12, shared_prefix="off")
    alike(whole, moved(make_trainer(tmp_path / "b", **base, **cut)))
    alike(whole, moved(make_trainer(tmp_path / "c", prover_micro_batches=3, shared_prefix="on", **base)))


def test_own_right_answers_move_the_prover_further_than_its_objective_alone(tmp_path):
    base = dict(SGD, prover_micro_batches=3, prover_samples_per_round=32, prover_sequences_per_step=32)
    with_them = make_trainer(tmp_path / "a", **{**IMITATES, **base})
    first = moved(with_them)
    alone = make_trainer(tmp_path / "b", **{**IMITATES, **base, "prover_imitated_per_step": 0, "prover_sft_coef": 0.0})
    second = moved(alone)
    assert any(not torch.equal(first[name], second[name]) for name in first)
    line, plain = rounds(tmp_path / "a")[-1], rounds(tmp_path / "b")[-1]
    assert line["prover/imitable_answers"] == len(with_them.learners["prover"].successes.kept) > 0
    assert line["prover/sft_loss"] > 0 and "prover/imitable_answers" not in plain
    for name in ("prover/correct_rate", "prover/trained_samples"):  # the same answers, and the same ones credited
        assert line[name] == plain[name]


@pytest.mark.slow
def test_a_resumed_run_in_moves_equals_the_straight_one_bit_for_bit(tmp_path):
    changes = dict(
        prover_objective="rloo", prover_objective_kwargs=None, prover_imitated_per_step=4, prover_micro_batches=2,
        prover_sequences_per_step=0, max_steps=4, save_strategy="steps", save_steps=2,
    )  # fmt: skip
    straight = build_moves(tmp_path / "a", **changes)
    straight.train()
    resumed = build_moves(tmp_path / "b", **changes)
    resumed.train(resume_from_checkpoint=str(tmp_path / "a" / "checkpoint-6"))
    assert equal(weights(straight), weights(resumed)) and equal(optimizer_state(straight), optimizer_state(resumed))
    first, second = (trainer.learners["prover"].successes.kept for trainer in (straight, resumed))
    assert first == second and first
