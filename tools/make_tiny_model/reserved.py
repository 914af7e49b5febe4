"""Words for the games to come: rows behind those of the warm start, which change nothing until something trains them.

Head and embedding are tied, so the logits of the old words depend on old rows and hidden states alone, which stay the
same bits. A new word's logit is its row times the hidden state. Rows of zeros would take up to 5% of the softmax where
the model is least sure of its answer (the log-sum is 5.8 there, and 16 e^-5.8 = .05); a common part is therefore
fitted, the shortest row whose logit lies MARGIN nats below the log-sum of the old words' wherever the model answers.
What tells the words apart as input lies in the directions in which those states hardly vary.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from countdown_selfplay.tiny import TINY_SPEC

from .exercises import ExampleSource
from .warm_start import THREADS, encode_batch, torch_threads

MARGIN = 24.0
"""Nats below the log-sum on the fitted states: 16 words weigh 16 e^-24 = 6e-10 there, and others have room."""

EXAMPLES = 512
QUIET = 32  # directions of least variance
APART = 2.0  # length of a word's own part; all 16 are then at most 4.4e-7 likely in what the model samples


def with_reserved(model: Any, words: int, seed: int = 0) -> Any:
    """The model with rows for `words` more words."""
    with torch_threads(THREADS), torch.no_grad():
        states, floor = _states(model, seed)
        common = _common(states, floor - MARGIN)
        _, _, directions = torch.linalg.svd(states, full_matrices=False)
        own = torch.from_numpy(np.random.default_rng(seed).normal(size=(words, QUIET))) @ directions[-QUIET:].double()
        own = APART * own / own.norm(dim=1, keepdim=True)
        old = model.get_input_embeddings().weight.detach().clone()
        model.resize_token_embeddings(len(old) + words, mean_resizing=False)
        model.get_input_embeddings().weight[:] = torch.cat([old, (common + own).to(old.dtype)])
    return model


def _states(model: Any, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Last hidden states (N, H) of the positions that predict an answer, and the log-sum of the logits there."""
    rng, source = np.random.default_rng(seed), ExampleSource(TINY_SPEC)
    ids, labels = encode_batch([source.draw(rng) for _ in range(EXAMPLES)])
    hidden = model.model(input_ids=ids, attention_mask=(ids != 0).long()).last_hidden_state[:, :-1]
    states = hidden[labels[:, 1:] >= 0]
    return states, torch.logsumexp(states @ model.get_input_embeddings().weight.T, 1)


def _common(states: torch.Tensor, most: torch.Tensor, steps: int = 4000) -> torch.Tensor:
    """The shortest row w with states @ w <= most, by projected gradient ascent on the dual (Hildreth 1957)."""
    x, bound = states.double(), most.double()
    weights = torch.zeros(len(x), dtype=torch.float64)
    rate = 1.0 / torch.linalg.matrix_norm(x, 2) ** 2
    momentum = weights.clone()
    for step in range(steps):  # accelerated as in Nesterov 1983
        row = -(momentum @ x)
        new = (momentum + rate * (x @ row - bound)).clamp_min(0)
        momentum = new + step / (step + 3) * (new - weights)
        weights = new
    return -(weights @ x)
