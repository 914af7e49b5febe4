"""The tiny model's architecture: Qwen3, 3 layers of width 128, 0.65M parameters, 2.6 MB in float32.

Qwen3 and not Qwen2: for the model type "qwen2" transformers 5 rebuilds every tokenizer as Qwen's byte-level BPE,
whatever tokenizer.json says, so that `AutoTokenizer` would lose this one's spaces and two-digit numbers. The two
differ in the attention only (Qwen3 normalises queries and keys and has no biases) and learn Countdown alike.
"""

from __future__ import annotations

import torch
from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

from countdown_selfplay.random_state import private_generator

from .tokenizer import BOS, EOS, LEARNT, MAX_LENGTH, PAD


def tiny_config() -> Qwen3Config:
    """Head size 32: the smallest that the inference engines which TRL supports accept."""
    return Qwen3Config(
        vocab_size=len(LEARNT),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=32,
        max_position_embeddings=MAX_LENGTH,
        tie_word_embeddings=True,
        pad_token_id=LEARNT.index(PAD),
        bos_token_id=LEARNT.index(BOS),
        eos_token_id=LEARNT.index(EOS),
    )


def build_model(seed: int) -> Qwen3ForCausalLM:
    """Untrained weights drawn from `seed`, with torch's global generator left as it was; samples the plain softmax."""
    with private_generator(torch.device("cpu"), "tiny model", seed):
        model = Qwen3ForCausalLM(tiny_config())
    model.generation_config = plain_softmax()
    return model


def plain_softmax() -> GenerationConfig:
    """Sampling at temperature 1 without top-p or top-k, until the end token."""
    return GenerationConfig(
        pad_token_id=LEARNT.index(PAD),
        bos_token_id=LEARNT.index(BOS),
        eos_token_id=LEARNT.index(EOS),
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
    )
