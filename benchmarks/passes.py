"""Passes of random tokens through the trainer's own loss, for benchmarks of the update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from countdown_selfplay.training.plan import Counts, Pass, Sample, Step, group_tokens


def random_pass(
    lengths: Sequence[int], prompt: int, vocabulary: int, answers: int = 1, role: str = "prover", seed: int = 0,
    start: int = 0,
) -> Pass:  # fmt: skip
    """A row of so many tokens for each of `lengths`, in groups of `answers` behind one prompt, each with credit. All
    prompts begin with the same `start` tokens."""
    generator = torch.Generator().manual_seed(seed)
    groups = -(-len(lengths) // answers)
    prompts = torch.randint(3, vocabulary, (groups, prompt), generator=generator).numpy()
    prompts[:, :start] = prompts[0, :start]
    completions = torch.randint(3, vocabulary, (len(lengths), max(lengths)), generator=generator).numpy()
    credit = torch.linspace(0.5, 1.0, len(lengths)).tolist()
    rows = [
        Sample(prompts[i // answers], completions[i, :length], credit[i], i // answers, i)
        for i, length in enumerate(lengths)
    ]
    return Pass(((role, rows),))


def random_lengths(least: int, most: int, count: int, seed: int = 0) -> list[int]:
    return torch.randint(least, most + 1, (count,), generator=torch.Generator().manual_seed(seed)).tolist()


def backward(trainer: Any, model: torch.nn.Module, passes: Sequence[Pass]) -> None:
    """Forward, loss and backward of the passes of an optimizer step."""
    rows: dict[str, list[Sample]] = {}
    for one in passes:
        for role, own in one.parts:
            rows.setdefault(role, []).extend(own)
    counts = {role: Counts.of(own) for role, own in rows.items()}
    trainer.optimizer_steps.begin(
        Step(passes, counts, counts, {role: group_tokens(own) for role, own in rows.items()})
    )
    for one in passes:
        trainer.accelerator.backward(trainer.optimizer_steps.measure(model, one))
