"""Token ids of demonstrations and pairs: the prompt exactly as it is tokenized for sampling, then the completion.

TRL tokenizes prompt and completion as one text and looks for the border afterwards. With word-level or merging
tokenizers the last word of the prompt then depends on the completion, so that the model is trained on a context that
it never meets when it samples. Here the two are tokenized apart and the end token is put after the completion once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import ConfigError, DataError
from . import sampling
from .sampling import prompt_ids

IGNORED = -100
"""The label of tokens that are not in the loss."""


def completion_ids(tokenizer: Any, completion: Any, chat: bool) -> list[int]:
    """The ids of the completion's text and the end token, which stands there exactly once.

    `chat`: the end token is the one that ends a turn of the chat template (Qwen2.5's base models have another
    `eos_token`, and a model that never saw its turn end goes on talking: FACTS of Allen and Ståblein's evaluation).
    """
    end = end_of_turn(tokenizer) if chat else end_of_text(tokenizer)
    return _ended(tokenizer(text_of(completion), add_special_tokens=False)["input_ids"], end)


def _ended(ids: Sequence[int], end: int) -> list[int]:
    kept = list(ids)
    while kept and kept[-1] == end:
        kept.pop()
    return [*kept, end]


def many_ids(tokenizer: Any, prompts: Sequence[Any], completions: Sequence[str]) -> list[tuple[list[int], list[int]]]:
    """`prompt_ids` and `completion_ids` of each pair, in two calls of the tokenizer where all prompts are texts: a
    call costs far more than the few tokens of a move."""
    if not prompts or not all(isinstance(prompt, str) for prompt in prompts):
        pairs = zip(prompts, completions, strict=True)
        return [(prompt_ids(tokenizer, p), completion_ids(tokenizer, c, not isinstance(p, str))) for p, c in pairs]
    first, end = tokenizer(list(prompts))["input_ids"], end_of_text(tokenizer)
    if not all(first):
        raise DataError(f"The prompt {prompts[[bool(ids) for ids in first].index(False)][:60]!r} has no token.")
    second = tokenizer([text_of(text) for text in completions], add_special_tokens=False)["input_ids"]
    return [(list(asked), _ended(ids, end)) for asked, ids in zip(first, second, strict=True)]


def text_of(completion: Any) -> str:
    """The text of a completion: a string, or one assistant message in a list."""
    if isinstance(completion, str):
        return completion
    if isinstance(completion, list) and len(completion) == 1 and isinstance(completion[0], Mapping):
        message = completion[0]
        if message.get("role") == "assistant" and isinstance(message.get("content"), str):
            return str(message["content"])
    raise DataError(
        f"A completion must be a text or a list of one assistant message with a text, got {str(completion)[:60]!r}."
    )


def end_of_text(tokenizer: Any) -> int:
    """The id that ends a plain text."""
    if tokenizer.eos_token_id is None:
        raise ConfigError("The tokenizer names no end token (`eos_token`); set one, or no text would ever end.")
    return int(tokenizer.eos_token_id)


def end_of_turn(tokenizer: Any) -> int:
    """The id that ends a turn where training and evaluation sample; the end of text if the template has none."""
    turn = sampling.end_of_turn(tokenizer)
    return end_of_text(tokenizer) if turn is None else turn


def demonstration_ids(tokenizer: Any, prompt: Any, completion: Any) -> dict[str, list[int]]:
    """`input_ids` and `labels` of a demonstration; the prompt's labels are -100, so that only the completion and its
    end token are in the loss."""
    first = prompt_ids(tokenizer, prompt)
    second = completion_ids(tokenizer, completion, chat=not isinstance(prompt, str))
    return {"input_ids": first + second, "labels": [IGNORED] * len(first) + second}


def pair_ids(tokenizer: Any, prompt: Any, chosen: Any, rejected: Any) -> dict[str, list[int]]:
    """`prompt_ids`, `chosen_ids` and `rejected_ids`, as TRL's collator for preferences takes them."""
    chat = not isinstance(prompt, str)
    return {
        "prompt_ids": prompt_ids(tokenizer, prompt),
        "chosen_ids": completion_ids(tokenizer, chosen, chat),
        "rejected_ids": completion_ids(tokenizer, rejected, chat),
    }
