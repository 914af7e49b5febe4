# Tests: policies/forward.py
"""Tiny families of causal models: name -> (model type, settings over SIZES), with random weights."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig, PreTrainedTokenizerFast

WORDS = ["<pad>", "</s>", "<unk>", "<s>", "\n", " ", *string.digits, *string.ascii_letters, *string.punctuation]
IDS = dict(vocab_size=len(WORDS), pad_token_id=0, eos_token_id=1, bos_token_id=3)
SIZES = dict(
    **IDS, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
    max_position_embeddings=512,
)  # fmt: skip
KV = dict(num_key_value_heads=1)
HEAD = dict(**KV, head_dim=16)
QUIET = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
DRY = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
DECODER = dict(**DRY, is_decoder=True)
SLIDES = dict(layer_types=["sliding_attention", "full_attention"])
ROPE = dict(factor=2.0, rope_theta=1e4)
LATENT = dict(q_lora_rank=16, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=16)
STATE = dict(ssm_state_size=8, state_size=8, n_groups=1)
LINEAR = dict(
    layer_types=["linear_attention", "full_attention"], linear_num_key_heads=2, linear_num_value_heads=2,
    linear_key_head_dim=16, linear_value_head_dim=16,
)  # fmt: skip
EXPERTS = dict(num_experts=4, num_local_experts=4, num_experts_per_tok=2, moe_intermediate_size=32)
ENCODER = dict(
    d_model=32, encoder_layers=1, decoder_layers=2, decoder_attention_heads=2, encoder_attention_heads=2,
    decoder_ffn_dim=64, encoder_ffn_dim=64, dropout=0.0,
)  # fmt: skip

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    # rotary positions, all keys seen
    "llama": ("llama", KV), "llama-eager": ("llama", {**KV, "attn_implementation": "eager"}),
    "llama-linear-rope": ("llama", {**KV, "rope_parameters": {**ROPE, "rope_type": "linear"}}),
    "llama-dynamic-rope": (
        "llama", {**KV, "max_position_embeddings": 64, "rope_parameters": {**ROPE, "rope_type": "dynamic"}},
    ),
    "qwen2": ("qwen2", KV), "qwen3": ("qwen3", HEAD), "apertus": ("apertus", KV), "arcee": ("arcee", KV),
    "bitnet": ("bitnet", KV), "cohere": ("cohere", KV), "cwm": ("cwm", HEAD),
    "diffllama": ("diffllama", dict(num_key_value_heads=2)),
    "ernie4_5": ("ernie4_5", HEAD), "exaone": ("exaone", KV), "falcon-rotary": ("falcon", dict(alibi=False)),
    "gemma": ("gemma", HEAD), "glm": ("glm", HEAD), "glm4": ("glm4", HEAD), "gpt_neox": ("gpt_neox", {}),
    "gpt_neox_japanese": ("gpt_neox_japanese", {}), "gptj": ("gptj", dict(rotary_dim=8, **QUIET)),
    "codegen": ("codegen", dict(rotary_dim=8, num_attention_heads=4, **QUIET)), "granite": ("granite", KV),
    "helium": ("helium", HEAD), "hunyuan": ("hunyuan_v1_dense", HEAD), "minicpm3": ("minicpm3", {**KV, **LATENT}),
    "moshi": ("moshi", HEAD), "nanochat": ("nanochat", KV), "nemotron": ("nemotron", KV), "olmo": ("olmo", KV),
    "olmo2": ("olmo2", KV), "persimmon": ("persimmon", {}), "phi": ("phi", KV), "phi3": ("phi3", KV),
    "seed_oss": ("seed_oss", HEAD), "smollm3": ("smollm3", KV), "stablelm": ("stablelm", KV),
    "youtu": ("youtu", LATENT), "jais2": ("jais2", KV), "hyperclovax": ("hyperclovax", KV),
    "roformer": ("roformer", DECODER),
    # windows, by layers or throughout
    "mistral": ("mistral", KV), "mistral-16": ("mistral", {**KV, "sliding_window": 16}),
    "ministral": ("ministral", {**HEAD, "sliding_window": 16}),
    "ministral3-16": ("ministral3", {**HEAD, "sliding_window": 16}),
    "phi3-16": ("phi3", {**KV, "sliding_window": 16}),
    "qwen2-16": ("qwen2", {**KV, **SLIDES, "use_sliding_window": True, "sliding_window": 16}),
    "qwen3-16": ("qwen3", {**HEAD, **SLIDES, "use_sliding_window": True, "sliding_window": 16}),
    "gemma2": ("gemma2", {**HEAD, **SLIDES, "sliding_window": 16}),
    "gemma3": ("gemma3_text", {**HEAD, **SLIDES, "sliding_window": 16}),
    "gemma3-512": ("gemma3_text", {**HEAD, **SLIDES, "sliding_window": 512}),
    "vaultgemma": ("vaultgemma", {**HEAD, **SLIDES, "sliding_window": 16}),
    "cohere2": ("cohere2", {**KV, **SLIDES, "sliding_window": 16}),
    "exaone4": ("exaone4", {**KV, **SLIDES, "sliding_window": 16}),
    "olmo3": ("olmo3", {**KV, **SLIDES, "sliding_window": 16}),
    "starcoder2": ("starcoder2", {**KV, "sliding_window": 16, "residual_dropout": 0.0, "embedding_dropout": 0.0}),
    "granite_swa": ("granite_swa", {**KV, **SLIDES, "sliding_window": 16}),
    "gpt_neo": (
        "gpt_neo",
        dict(num_layers=2, num_heads=2, attention_types=[[["global", "local"], 1]], window_size=16,
             resid_dropout=0.0, embed_dropout=0.0, attention_dropout=0.0),
    ),
    "doge": ("doge", {**KV, "sliding_window": 16}),
    "modernbert-decoder": ("modernbert-decoder", {**SLIDES, "local_attention": 16}),
    # learned positions
    "gpt2": ("gpt2", QUIET), "gpt2-scaled": ("gpt2", {**QUIET, "scale_attn_by_inverse_layer_idx": True}),
    "gpt_bigcode": ("gpt_bigcode", QUIET),
    "opt": ("opt", dict(ffn_dim=64, word_embed_proj_dim=32, dropout=0.0)), "biogpt": ("biogpt", DRY),
    "openai-gpt": ("openai-gpt", QUIET), "bert": ("bert", DECODER), "bert-generation": ("bert-generation", DECODER),
    "roberta": ("roberta", {**DECODER, "max_position_embeddings": 520}), "electra": ("electra", DECODER),
    "megatron-bert": ("megatron-bert", DECODER), "rembert": ("rembert", DECODER),
    "xlm-roberta": ("xlm-roberta", {**DECODER, "max_position_embeddings": 520}),
    "camembert": ("camembert", {**DECODER, "max_position_embeddings": 520}), "ernie": ("ernie", DECODER),
    # sinusoids, biases by distance, no positions at all
    "xglm": ("xglm", dict(d_model=32, ffn_dim=64, num_layers=2, attention_heads=2, dropout=0.0)),
    "ctrl": ("ctrl", dict(n_embd=32, dff=64, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0)),
    "bloom": ("bloom", dict(n_layer=2, n_head=2)), "mpt": ("mpt", dict(d_model=32, n_heads=2, n_layers=2)),
    "falcon-alibi": ("falcon", dict(alibi=True)),
    "smollm3-nope": ("smollm3", {**KV, "no_rope_layers": [0, 0]}),
    "xlm": ("xlm", dict(emb_dim=32, n_layers=2, n_heads=2, causal=True, dropout=0.0, attention_dropout=0.0)),
    "cpmant": ("cpmant", dict(dim_ff=64, dim_head=16)),
    # a state, alone or beside attention
    "mamba2": ("mamba2", dict(**STATE, num_heads=4, head_dim=16, chunk_size=16)),
    "falcon_mamba": ("falcon_mamba", STATE), "rwkv": ("rwkv", dict(attention_hidden_size=32, context_length=512)),
    "recurrent_gemma": (
        "recurrent_gemma",
        {**HEAD, "num_hidden_layers": 3, "lru_width": 32, "attention_window_size": 16, "conv1d_width": 4},
    ),
    "falcon_h1": (
        "falcon_h1",
        {**HEAD, "mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_n_groups": 1, "mamba_d_state": 8,
         "mamba_chunk_size": 16},
    ),
    "zamba2": (
        "zamba2",
        {**KV, "layers_block_type": ["mamba", "hybrid"], "mamba_d_state": 8, "n_mamba_heads": 4, "mamba_ngroups": 1,
         "chunk_size": 16, "hybrid_layer_ids": [1], "num_mem_blocks": 1, "num_key_value_heads": 2},
    ),
    "bamba": (
        "bamba",
        {**KV, "attn_layer_indices": [1], "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8,
         "mamba_chunk_size": 16},
    ),
    "lfm2": ("lfm2", {**KV, "layer_types": ["conv", "full_attention"]}),
    "qwen3_5": ("qwen3_5_text", {**HEAD, **LINEAR}), "qwen3_next": ("qwen3_next", {**HEAD, **LINEAR, **EXPERTS}),
    "olmo_hybrid": ("olmo_hybrid", {**KV, **LINEAR}),
    "xlstm": ("xlstm", dict(num_blocks=2, num_heads=2, qk_dim_factor=1.0, chunk_size=16)),
    "reformer": (
        "reformer",
        dict(is_decoder=True, attn_layers=["local", "local"], axial_pos_embds=False,
             attention_head_size=16, feed_forward_size=64, local_attn_chunk_length=16,
             hidden_dropout_prob=0.0, local_attention_probs_dropout_prob=0.0, lsh_attention_probs_dropout_prob=0.0),
    ),
    # mixtures of experts and encoder-decoders
    "mixtral": ("mixtral", {**KV, **EXPERTS}), "qwen3_moe": ("qwen3_moe", {**HEAD, **EXPERTS}),
    "olmoe": ("olmoe", {**KV, **EXPERTS}), "gpt_oss": ("gpt_oss", {**HEAD, **SLIDES, **EXPERTS, "sliding_window": 16}),
    "jamba": ("jamba", {**KV, **EXPERTS, "attn_layer_period": 2, "attn_layer_offset": 1}),
    "deepseek_v2": ("deepseek_v2", {**LATENT, **EXPERTS, "n_routed_experts": 4, "first_k_dense_replace": 1}),
    "granitemoehybrid": ("granitemoehybrid", {**KV, **EXPERTS, "mamba_n_heads": 4, "mamba_d_head": 16,
                                              "layer_types": ["mamba", "attention"]}),
    "bart": ("bart", ENCODER), "blenderbot": ("blenderbot", ENCODER),
}  # fmt: skip
FEW = ("mistral-16", "gpt2", "bloom", "openai-gpt")
"""A family of each kind of trouble: a window, learned positions, no position ids, no cache."""


def tokenizer() -> PreTrainedTokenizerFast:
    """A token a character."""
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated"), decoders.Fuse()
    special = dict(pad_token="<pad>", eos_token="</s>", bos_token="<s>", unk_token="<unk>")
    return PreTrainedTokenizerFast(tokenizer_object=made, padding_side="left", **special)


def built(name: str, scale: float = 3.0) -> Any:
    """A model of the family with weights `scale` times those of a fresh one, so that what it reads matters."""
    kind, own = FAMILIES[name]
    attention = {key: value for key, value in own.items() if key == "attn_implementation"}
    config = AutoConfig.for_model(kind, **{**SIZES, **{k: v for k, v in own.items() if k not in attention}})
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, **attention).eval()
    model.generation_config = GenerationConfig(eos_token_id=1, pad_token_id=0)  # Bart's forces an end token
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(scale)
    return model


def folder(name: str, path: Path) -> str:
    """A model's folder with its tokenizer."""
    built(name).save_pretrained(path)
    tokenizer().save_pretrained(path)
    return str(path)
