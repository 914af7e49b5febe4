"""The architectures of the ladder's three models: Qwen3 like the tiny model, and smaller.

The rows of the numbers 0 to 99 start as waves over the number and over its logarithm, so that sums, differences and
products of neighbours are neighbours from the first step on. The prototype always had them, so what they are worth is
not measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from countdown_selfplay.random_state import private_generator

from ..model import plain_softmax
from ..tokenizer import BOS, EOS, LARGEST_NUMBER, MAX_LENGTH, PAD, WORDS

HEAD_DIM = 16


@dataclass(frozen=True, slots=True)
class Shape:
    """Width, depth and width of the MLP; heads are as many of HEAD_DIM as fill the width."""

    hidden_size: int
    layers: int
    intermediate_size: int

    def config(self) -> Qwen3Config:
        heads = self.hidden_size // HEAD_DIM
        return Qwen3Config(
            vocab_size=len(WORDS),
            hidden_size=self.hidden_size,
            intermediate_size=self.intermediate_size,
            num_hidden_layers=self.layers,
            num_attention_heads=heads,
            num_key_value_heads=heads,
            head_dim=HEAD_DIM,
            max_position_embeddings=MAX_LENGTH,
            tie_word_embeddings=True,
            pad_token_id=WORDS.index(PAD),
            bos_token_id=WORDS.index(BOS),
            eos_token_id=WORDS.index(EOS),
        )


PROVER = Shape(hidden_size=64, layers=4, intermediate_size=192)
"""0.22M parameters."""

CONJECTURER = Shape(hidden_size=48, layers=2, intermediate_size=128)
"""0.06M parameters."""

_PERIODS = (2, 3, 4, 5, 7, 9, 10, 11, 13, 20, 25, 50, 100, 200)
_LOG_PERIODS = (0.35, 0.7, 1.1, 2, 4, 9)
_WAVE = 0.05  # amplitude in a row; the other entries are drawn with deviation 0.02
_DEVIATION = 0.02
_GAIN = 0.6  # of the linear layers: deviation gain / sqrt(inputs)


def build(shape: Shape, seed: int, role: str) -> Qwen3ForCausalLM:
    """Untrained weights drawn from `seed` and `role`, with torch's global generator left as it was."""
    with private_generator(torch.device("cpu"), "ladder", role, seed), torch.no_grad():
        model = Qwen3ForCausalLM(shape.config())
        for weight in model.parameters():
            if weight.dim() == 2:
                weight.normal_(std=_GAIN * weight.shape[1] ** -0.5)
        rows = model.get_input_embeddings().weight
        rows.normal_(std=_DEVIATION)
        waves = number_waves()[:, : shape.hidden_size]
        first = WORDS.index("0")
        rows[first : first + len(waves), : waves.shape[1]] = waves
    model.generation_config = plain_softmax()
    return model


def number_waves() -> torch.Tensor:
    """Cosine and sine of every number 0 to 99, and of its logarithm, at each period: (100, 40)."""
    numbers = torch.arange(LARGEST_NUMBER + 1, dtype=torch.float32)
    angles = [2 * math.pi * numbers / period for period in _PERIODS]
    angles += [2 * math.pi * (numbers + 0.5).log() / period for period in _LOG_PERIODS]
    return _WAVE * torch.stack([wave for angle in angles for wave in (angle.cos(), angle.sin())], 1)
