"""Sampling completions for evaluation: private randomness, large batches, and a flag for answers that were cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import GenerationConfig

from ..random_state import private_torch_seed

Prompt = str | list[dict[str, str]]


@torch.inference_mode()
def sample_texts(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Prompt],
    n: int,
    *,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int = 0,
    max_new_tokens: int = 1024,
    batch_size: int = 128,
    seed: int = 0,
    stop_strings: list[str] | None = None,
) -> tuple[list[list[str]], list[list[bool]]]:
    """`n` completions for each of P prompts, and whether each was cut at `max_new_tokens`: two (P, n) lists.

    Prompts are texts or chats. temperature 0 is greedy decoding. `model` needs `generate`, `device` and
    `train`/`eval`; its mode is restored. Depends on `seed` and the arguments alone, and leaves torch's global
    generators bit-identical.
    """
    ids = [_tokenize(tokenizer, prompt) for prompt in prompts]
    # Prompts of one length share batches without padding; every prompt's n samples stay together where they fit.
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    rows = [i for i in order for _ in range(n)]
    config = _generation_config(model, tokenizer, temperature, top_p, top_k, max_new_tokens, stop_strings)
    extra = {"tokenizer": tokenizer} if stop_strings else {}
    texts: list[list[str]] = [[] for _ in ids]
    cut: list[list[bool]] = [[] for _ in ids]
    was_training = model.training
    model.eval()
    try:
        for number, start in enumerate(range(0, len(rows), batch_size)):
            batch = rows[start : start + batch_size]
            inputs = tokenizer.pad({"input_ids": [ids[i] for i in batch]}, padding_side="left", return_tensors="pt")
            inputs = {name: inputs[name].to(model.device) for name in ("input_ids", "attention_mask")}
            with private_torch_seed("evaluation", seed, number):
                output = model.generate(**inputs, generation_config=config, **extra)
            new = output[:, inputs["input_ids"].size(1) :].cpu()
            decoded = tokenizer.batch_decode(new, skip_special_tokens=True)
            for i, text, tokens in zip(batch, decoded, new, strict=True):
                texts[i].append(text)
                cut[i].append(_was_cut(tokens, text, config, max_new_tokens, stop_strings))
    finally:
        model.train(was_training)
    return texts, cut


def _tokenize(tokenizer: Any, prompt: Prompt) -> list[int]:
    if isinstance(prompt, str):
        return tokenizer(prompt)["input_ids"]
    return tokenizer.apply_chat_template(prompt, add_generation_prompt=True, return_dict=True)["input_ids"]


def _generation_config(
    model: Any,
    tokenizer: Any,
    temperature: float,
    top_p: float,
    top_k: int,
    max_new_tokens: int,
    stop_strings: list[str] | None,
) -> GenerationConfig:
    known = getattr(model.generation_config, "eos_token_id", None)
    ends = known if isinstance(known, list) else [] if known is None else [known]
    sampling = {"temperature": temperature, "top_p": top_p, "top_k": top_k} if temperature > 0 else {}
    return GenerationConfig(
        max_new_tokens=max_new_tokens,
        do_sample=temperature > 0,
        eos_token_id=list(dict.fromkeys([tokenizer.eos_token_id, *ends])),
        pad_token_id=tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id,
        bos_token_id=tokenizer.bos_token_id,
        stop_strings=stop_strings,
        disable_compile=True,
        **sampling,
    )


def _was_cut(
    tokens: torch.Tensor, text: str, config: GenerationConfig, max_new_tokens: int, stop_strings: list[str] | None
) -> bool:
    if tokens.numel() < max_new_tokens or any(text.rstrip().endswith(stop) for stop in stop_strings or ()):
        return False
    return int(tokens[-1]) not in (*config.eos_token_id, config.pad_token_id)
