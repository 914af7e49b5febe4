"""A model of its own for domains in plain words: characters as tokens, random weights, made in a second."""

from __future__ import annotations

import string
from pathlib import Path

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM


def character_model(folder: Path) -> Path:
    """Written into `folder`: a model and its tokenizer, whose tokens are the printable characters and the end of a
    line."""
    words = ["<pad>", "</s>", "<unk>", "\n", " ", *string.digits, *string.ascii_letters, *string.punctuation]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated"), decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", eos_token="</s>", unk_token="<unk>", padding_side="left"
    )
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    more = {"num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 512, "tie_word_embeddings": True}
    model = Qwen3ForCausalLM(Qwen3Config(vocab_size=len(words), pad_token_id=0, eos_token_id=1, **sizes, **more))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
