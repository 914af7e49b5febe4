"""The tiny model's architecture: Qwen2, 3 layers of width 128, 0.66M parameters, 2.6 MB in float32."""

from __future__ import annotations

from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

from ..random_state import private_torch_seed
from .tokenizer import BOS, EOS, MAX_LENGTH, PAD, WORDS


def tiny_config() -> Qwen2Config:
    """Head size 32: the smallest that the inference engines which TRL supports accept."""
    return Qwen2Config(
        vocab_size=len(WORDS),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=MAX_LENGTH,
        tie_word_embeddings=True,
        pad_token_id=WORDS.index(PAD),
        bos_token_id=WORDS.index(BOS),
        eos_token_id=WORDS.index(EOS),
    )


def build_model(seed: int) -> Qwen2ForCausalLM:
    """Untrained weights drawn from `seed`; torch's global generator is left as it was. Samples from the plain "
    "softmax."""
    with private_torch_seed("tiny model", seed):
        model = Qwen2ForCausalLM(tiny_config())
    model.generation_config = GenerationConfig(
        pad_token_id=WORDS.index(PAD),
        bos_token_id=WORDS.index(BOS),
        eos_token_id=WORDS.index(EOS),
        do_sample=True,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
    )
    return model
