"""What a round logs about its texts and its times, checked against numbers counted another way."""

import json
from pathlib import Path

import pytest
import torch
from datasets import Dataset

from .conftest import on_sample, rounds

EVAL = [{"numbers": [3, 5, 7], "target": 22}, {"numbers": [2, 4, 6], "target": 20}]


def test_lengths_and_cut_texts_are_counted_from_the_round_itself(build):
    """Counted again from what the rollouts return: each text's own tokens without padding, the end token included."""
    trainer = build(max_steps=2, max_completion_length=6, logging_steps=1)
    seen = {"prover": [], "conjecturer": []}

    def watch(role, found):
        seen[role].append((found.tensors["completion_ids"].tolist(), found.tensors["completion_mask"].tolist()))

    on_sample(trainer, watch)
    trainer.train()
    for number, line in enumerate(rounds(trainer.args.output_dir)):
        for role, rollouts in seen.items():
            ids, masks = rollouts[number]
            texts = [[i for i, kept in zip(*row, strict=True) if kept] for row in zip(ids, masks, strict=True)]
            lengths = [len(text) for text in texts]
            cut = [len(text) == 6 and text[-1] not in trainer.eos_token_ids for text in texts]
            assert line[f"{role}/completion_length"] == pytest.approx(sum(lengths) / len(lengths))
            assert line[f"{role}/completion_length_max"] == max(lengths)
            assert line[f"{role}/truncated_rate"] == pytest.approx(sum(cut) / len(cut))
            assert not any(name.startswith("completions/") for name in line)
    assert 0 < rounds(trainer.args.output_dir)[0]["prover/truncated_rate"] < 1  # six tokens cut some answers, not all


def test_an_evaluation_between_two_logs_leaves_the_times_of_the_rounds_alone(build):
    trainer = build(trainer={"eval_dataset": Dataset.from_list(EVAL)}, num_generations_eval=2, max_steps=1)
    trainer.train()
    trainer.model.train()
    trainer._metrics["train"]["time/round"] += [1.0, 3.0]
    trainer.evaluate()
    assert trainer.model.training
    trainer.log({"loss": 0.0})
    lines = [json.loads(x) for x in (Path(trainer.args.output_dir) / "metrics.jsonl").read_text().splitlines()]
    evaluation, last = lines[-2:]
    assert "eval_pass@1" in evaluation and not any("time/" in name for name in evaluation)
    assert last["time/round"] == 2.0  # the mean of 1 and 3 seconds


def test_times_are_logged_for_every_log_of_a_run_that_evaluates_between_two(build):
    trainer = build(
        trainer={"eval_dataset": Dataset.from_list(EVAL)}, num_generations_eval=2, max_steps=4, logging_steps=2,
        eval_strategy="steps", eval_steps=1,
    )  # fmt: skip
    trainer.train()
    lines = [json.loads(x) for x in (Path(trainer.args.output_dir) / "metrics.jsonl").read_text().splitlines()]
    assert [("time/round" in x, "step_time" in x) for x in lines if "loss" in x] == [(True, True), (True, True)]
    assert not any("time/round" in x for x in lines if "eval_pass@1" in x)
    assert torch.isfinite(torch.tensor([x["time/round"] for x in lines if "loss" in x])).all()
