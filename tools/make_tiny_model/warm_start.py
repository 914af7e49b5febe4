"""Supervised warm start of the tiny model:
both roles in one set of weights, stopped while there is much left to learn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from transformers import Qwen3ForCausalLM

from countdown_selfplay.countdown import ProblemSpec

from .exercises import ExampleSource
from .model import build_model
from .tokenizer import BOS, EOS, PAD, WORDS, build_tokenizer

_ID = {word: index for index, word in enumerate(WORDS)}
_IGNORED = -100  # the label that transformers' loss leaves out

THREADS = 2
"""torch threads for training and measuring: with another number sums are rounded differently, and results differ."""


@dataclass(frozen=True)
class WarmStart:
    """Settings of the shipped weights. The schedule ends at `steps`, so another number of steps is another run."""

    steps: int = 720
    seed: int = 0
    batch_size: int = 256
    learning_rate: float = 2e-3
    warmup_steps: int = 100
    final_share: float = 0.02
    """Learning rate at the end of the cosine, as a share of the peak."""
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.98)
    max_grad_norm: float = 1.0
    threads: int = THREADS

    def learning_rate_at(self, step: int) -> float:
        """Linear warm-up times cosine decay, for step 0 to `steps` - 1."""
        warm = min(1.0, (step + 1) / self.warmup_steps)
        return self.learning_rate * warm * (0.5 * (1 + math.cos(math.pi * step / self.steps)) + self.final_share)


def encode_batch(examples: Sequence[tuple[str, str]]) -> tuple[torch.Tensor, torch.Tensor]:
    """(prompt, answer) texts -> token ids (B, T), right-padded, and labels (B, T) of the answers' tokens only."""
    rows = [
        ([_ID[BOS], *(_ID[word] for word in prompt.split())], [*(_ID[word] for word in answer.split()), _ID[EOS]])
        for prompt, answer in examples
    ]
    width = max(len(prompt) + len(answer) for prompt, answer in rows)
    ids = torch.full((len(rows), width), _ID[PAD], dtype=torch.long)
    labels = torch.full((len(rows), width), _IGNORED, dtype=torch.long)
    for index, (prompt, answer) in enumerate(rows):
        end = len(prompt) + len(answer)
        ids[index, :end] = torch.tensor(prompt + answer)
        labels[index, len(prompt) : end] = torch.tensor(answer)
    return ids, labels


def train(
    spec: ProblemSpec, settings: WarmStart, on_step: Callable[[int, float], None] | None = None
) -> Qwen3ForCausalLM:
    """A model trained from nothing on `spec`'s train side.

    The same settings give the same bits on the same machine. `on_step(step, loss)` sees the mean loss per answer token
    (nats) after each step, counted from 1.
    """
    source = ExampleSource(spec)
    rng = np.random.default_rng(settings.seed)

    def batches() -> Iterator[dict[str, torch.Tensor]]:
        while True:
            ids, labels = encode_batch([source.draw(rng) for _ in range(settings.batch_size)])
            yield {"input_ids": ids, "attention_mask": (ids != _ID[PAD]).long(), "labels": labels}

    return fit(build_model(settings.seed), batches(), settings, on_step)


def fit(
    model: Qwen3ForCausalLM,
    batches: Iterator[dict[str, torch.Tensor]],
    settings: WarmStart,
    on_step: Callable[[int, float], None] | None = None,
) -> Qwen3ForCausalLM:
    """`model` after `settings.steps` steps, each on the next of `batches` (arguments of its forward pass)."""
    model.train()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.learning_rate, betas=settings.betas, weight_decay=settings.weight_decay
    )
    with torch_threads(settings.threads):
        for step in range(settings.steps):
            for group in optimizer.param_groups:
                group["lr"] = settings.learning_rate_at(step)
            loss = model(**next(batches)).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
            optimizer.step()
            optimizer.zero_grad()
            if on_step is not None:
                on_step(step + 1, loss.item())
    return model.eval()


def save(model: Qwen3ForCausalLM, folder: Path) -> None:
    """Weights (float32 safetensors), configuration, generation settings and tokenizer, as plain Hugging Face files."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    build_tokenizer().save_pretrained(folder)


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Inside the block torch computes with this many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
