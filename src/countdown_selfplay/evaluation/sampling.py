"""Sampling of texts from a model, reproducible from a seed and without effect on torch's global generators; and token
ids of demonstrations and pairs: the prompt as tokenized for sampling, then the completion.

TRL tokenizes prompt and completion as one text and finds the border afterwards. With word-level or merging tokenizers
the last token of the prompt then depends on the completion, and the model is trained on a context that never occurs in
sampling. Here both are tokenized separately, and the end token is appended once."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Unpack

import torch
from transformers import GenerationConfig, PreTrainedModel
from transformers.generation.stopping_criteria import StopStringCriteria

from ..asking import DEFAULTS, Asked, check_token_ids, generation_settings
from ..chat_templates import end_of_turn, prompt_ids, ready
from ..distributed.processes import ALONE, Processes
from ..errors import ConfigError, DataError, PromptError
from ..policies.base import evaluating
from ..policies.decode import neutral_generation, without_idle_rows
from ..random_state import private_generator

IGNORED = -100
"""Label of tokens that are not in the loss."""


class Sampling(Asked, total=False):
    """Arguments of sample_completions in an evaluation; `stop_strings` None selects the domain's."""

    progress: Callable[[int, int], None] | None


class Completion(NamedTuple):
    """Sampled text up to the end token, with its number of tokens. truncated: whether the token budget cut it."""

    text: str
    tokens: int
    truncated: bool


def sample_texts(
    model: Any, tokenizer: Any, prompts: Sequence[Any], n: int, **sampling: Any
) -> tuple[list[list[str]], list[list[bool]]]:
    """Return the texts of `shared_completions`, and whether each was cut, prompts x n."""
    rows = shared_completions(model, tokenizer, prompts, n, **sampling)
    return [[c.text for c in row] for row in rows], [[c.truncated for c in row] for row in rows]


def shared_completions(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Any],
    n: int,
    *,
    processes: Processes = ALONE,
    seed: int = 0,
    **sampling: Any,
) -> list[list[Completion]]:
    """Sample as `sample_completions`. `processes` share the prompts, and each returns all completions, which depend on
    the number of processes."""
    sampling |= {"seed": processes.seed(seed), "in_step": processes.in_step}
    rows = sample_completions(model, tokenizer, processes.deal(prompts), n, **sampling)
    return processes.collect(rows, len(prompts))


def sample_completions(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Any],
    n: int,
    *,
    batch_size: int = 256,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    in_step: bool = False,
    spread: Processes = ALONE,
    **sampling: Unpack[Asked],
) -> list[list[Completion]]:
    """Sample `n` completions per prompt: prompts x n. Equal arguments give equal texts, and torch's generators
    are left bit-identical. Each batch has a separate generator, from `seed` and its number, so that a text depends
    on the other rows of its batch.

    Args:
        model: Anything with `.generate(input_ids=, attention_mask=, generation_config=)` and `.device`; its
          mode is restored.
        prompts: Texts, or lists of chat messages, which need a chat template.
        sampling: Values for names of asking.DEFAULTS; absent ones or None have the default. Temperature 0 is greedy. A
          text ends at an end token of tokenizer, model or chat template, or after a stop string, which stays in it.
        batch_size: Rows (prompts x n) per batch; prompts are sorted by length and padded on the left, rows of a
          prompt are adjacent.
        progress: Called as (done, total) before the first and after each batch.
        in_step: Whether other processes generate at the same time with the same steps (Processes).
        spread: Processes with equal, unsharded weights, all of which call with equal arguments. Each generates a part
          of the batches and returns all texts, which do not depend on the number of processes.
    """
    _check(n, batch_size, sampling)
    check_stop_strings(tokenizer, sampling.get("stop_strings"))
    tokenizer = ready(tokenizer, prompts, sampling.get("chat_template_kwargs"))
    ids = [prompt_ids(tokenizer, prompt) for prompt in prompts]
    ends = end_token_ids(model, tokenizer, any(not isinstance(prompt, str) for prompt in prompts))
    if named := sampling.get("generation_kwargs"):
        check_token_ids(named, model.get_input_embeddings().num_embeddings)
    settings = generation_settings(sampling, ends, tokenizer.pad_token_id)
    config = GenerationConfig(**settings, disable_compile=True)
    device = torch.device(model.device)
    extra = {"generation_config": config} | ({"tokenizer": tokenizer} if config.stop_strings else {})
    extra |= {"synced_gpus": True} if in_step else {}
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    rows = [i for i in order for _ in range(n)]
    answers: list[list[Completion]] = [[] for _ in ids]
    mine: list[tuple[int, list[Completion]]] = []
    if progress is not None and rows:
        progress(0, len(rows))  # the first batch may take a minute
    with evaluating(model), neutral_generation(model), torch.no_grad():
        for number, start in enumerate(range(0, len(rows), batch_size)):
            if number % spread.world != spread.rank:
                continue
            batch = rows[start : start + batch_size]
            width = max(len(ids[i]) for i in batch)
            input_ids = torch.tensor([[config.pad_token_id] * (width - len(ids[i])) + ids[i] for i in batch])
            mask = torch.tensor([[0] * (width - len(ids[i])) + [1] * len(ids[i]) for i in batch])
            model_inputs = dict(input_ids=input_ids.to(device), attention_mask=mask.to(device), **extra)
            with private_generator(device, "evaluation", seed, number):
                # A PEFT model of the trainer does it in its `generate`.
                pretrained = isinstance(model, PreTrainedModel)
                output = model.generate(**(without_idle_rows(model, model_inputs) if pretrained else model_inputs))
            mine.append((start, decoded(tokenizer, output[:, width:].tolist(), config)))
            if progress is not None:
                progress(start + len(batch), len(rows))
    for start, completions in sorted(spread.gather(mine)):
        for i, completion in zip(rows[start : start + len(completions)], completions, strict=True):
            answers[i].append(completion)
    return answers


def end_token_ids(model: Any, tokenizer: Any, chat: bool) -> list[int]:
    """Return the ids that end a text: the end tokens of tokenizer and model, and with `chat` the token after a turn of
    the chat template, which may differ from them. Raises ConfigError if there is none."""
    ends = id_list(tokenizer.eos_token_id)
    ends += id_list(getattr(getattr(model, "generation_config", None), "eos_token_id", None))
    turn = end_of_turn(tokenizer) if chat else None
    ends += [] if turn is None else [turn]
    if not ends:
        raise ConfigError("Tokenizer and model name no end token (`eos_token_id`); set one, or texts never end.")
    return list(dict.fromkeys(ends))


def with_stops(sampling: Any, domain: Any, role: str) -> Any:
    """Return `sampling` with the domain's stop strings for the role, unless `sampling` has some ([]: none)."""
    given = sampling.get("stop_strings")
    return {**sampling, "stop_strings": list((domain.stop_strings(role) if given is None else given) or [])}


def dtype_of(model: Any) -> str:
    """Return the precision in which the model computes: that of its weights, or of autocast around it."""
    first = next(iter(model.parameters()), None) if hasattr(model, "parameters") else None
    kind = "cpu" if first is None else first.device.type
    if torch.is_autocast_enabled(kind):
        return str(torch.get_autocast_dtype(kind)).removeprefix("torch.")
    return "unknown" if first is None else str(first.dtype).removeprefix("torch.")


def check_stop_strings(tokenizer: Any, stop_strings: Sequence[str] | None) -> None:
    """Raise ConfigError for an empty stop string, which ends every text, and PromptError if generation cannot use it:
    transformers decodes every token after a fixed word, which a vocabulary of whole words may lack."""
    if not stop_strings:
        return
    if "" in stop_strings:
        raise ConfigError(
            f"The stop strings ({list(stop_strings)}) hold an empty text, which ends each text at its first token; "
            "leave it out."
        )
    try:
        StopStringCriteria(tokenizer, list(stop_strings))
    except ValueError as error:
        raise PromptError(
            f"The stop string {' or '.join(map(repr, stop_strings))}, of an option or of the prompt style, is a text "
            f"that generation cannot look for with this tokenizer of whole words ({len(tokenizer)} of them); leave it "
            "out, or use a style that it was made for: conjecturer_prompt=compact for the embedded model."
        ) from error


def _check(n: int, batch_size: int, sampling: Mapping[str, Any]) -> None:
    unknown = [name for name in sampling if name not in DEFAULTS]
    if unknown:
        raise TypeError(f"sample_completions() has no argument '{unknown[0]}'; it takes {', '.join(DEFAULTS)}.")
    how = {**DEFAULTS, **{name: value for name, value in sampling.items() if value is not None}}
    how |= {"n": n, "batch_size": batch_size}
    allowed = {
        "n": (n >= 1, "be at least 1"),
        "max_new_tokens": (how["max_new_tokens"] >= 1, "be at least 1 (in training `max_completion_length`)"),
        "batch_size": (batch_size >= 1, "be at least 1 (in training `per_device_eval_batch_size`)"),
        "temperature": (0 <= how["temperature"] < math.inf, "be 0 (greedy) or a finite number above"),
        "top_k": (how["top_k"] >= 0, "be at least 0 (0 switches it off)"),
        "top_p": (0 < how["top_p"] <= 1, "lie above 0 and at most 1 (1 switches it off)"),
        "min_p": (0 <= how["min_p"] <= 1, "lie between 0 and 1 (0 switches it off)"),
        "repetition_penalty": (0 < how["repetition_penalty"] < math.inf, "be finite and above 0 (1 switches it off)"),
    }
    for name, (fits, rule) in allowed.items():
        if not fits:
            raise ConfigError(f"`{name}` ({how[name]}) must {rule}.")


def decoded(tokenizer: Any, completions: Sequence[Sequence[int]], config: GenerationConfig) -> list[Completion]:
    """Convert ids that were generated under `config` to completions: text up to the first end token. A completion is
    truncated if it has neither an end token nor a stop string within the budget."""
    ends = set(config.eos_token_id)
    lengths = [next((at for at, i in enumerate(row) if i in ends), len(row)) for row in completions]
    kept = [row[:length] for row, length in zip(completions, lengths, strict=True)]
    # A row that met a stop string is padded while others go on; skip_special_tokens takes the padding off.
    texts = tokenizer.batch_decode(kept, skip_special_tokens=True)
    decoded_texts = []
    for row, text in zip(kept, texts, strict=True):
        stopped = any(stop in text for stop in config.stop_strings or ())
        tokens = len(row)
        while stopped and tokens and row[tokens - 1] == config.pad_token_id:
            tokens -= 1
        decoded_texts.append(Completion(text, tokens, len(row) >= config.max_new_tokens and not stopped))
    return decoded_texts


def id_list(ids: int | list[int] | None) -> list[int]:
    """Return the token ids of a generation config's field, an int, a list or None, as a list."""
    return [] if ids is None else [ids] if isinstance(ids, int) else list(ids)


def completion_ids(tokenizer: Any, completion: Any, chat: bool) -> list[int]:
    """Return the ids of the completion's text and one end token. `chat`: take the token that ends a turn in the
    chat template and not `eos_token` (different in Qwen2.5's base models), because a model that never saw the
    end of a turn does not stop."""
    end = end_token_id(tokenizer, chat)
    return _ended(tokenizer(text_of(completion), add_special_tokens=False)["input_ids"], end)


def _ended(ids: Sequence[int], end: int) -> list[int]:
    kept = list(ids)
    while kept and kept[-1] == end:
        kept.pop()
    return [*kept, end]


def many_ids(tokenizer: Any, prompts: Sequence[Any], completions: Sequence[str]) -> list[tuple[list[int], list[int]]]:
    """Return `prompt_ids` and `completion_ids` of each pair, with few calls of the tokenizer."""
    if not prompts or not all(isinstance(prompt, str) for prompt in prompts):
        pairs = zip(prompts, completions, strict=True)
        return [(prompt_ids(tokenizer, p), completion_ids(tokenizer, c, not isinstance(p, str))) for p, c in pairs]
    first, end = tokenizer(list(prompts))["input_ids"], end_token_id(tokenizer, False)
    if not all(first):
        raise DataError(f"The prompt {prompts[[bool(ids) for ids in first].index(False)][:60]!r} has no token.")
    second = tokenizer([text_of(text) for text in completions], add_special_tokens=False)["input_ids"]
    return [(list(prompt_tokens), _ended(ids, end)) for prompt_tokens, ids in zip(first, second, strict=True)]


def text_of(completion: Any) -> str:
    """Return the text of a completion: a string, or one assistant message in a list. Raises DataError otherwise."""
    if isinstance(completion, str):
        return completion
    if isinstance(completion, list) and len(completion) == 1 and isinstance(completion[0], Mapping):
        message = completion[0]
        if message.get("role") == "assistant" and isinstance(message.get("content"), str):
            return str(message["content"])
    raise DataError(
        f"A completion must be a text or a list of one assistant message with a text, got {str(completion)[:60]!r}."
    )


def end_token_id(tokenizer: Any, chat: bool = True) -> int:
    """Return the id that ends a text; in a chat the id that ends a turn, if the template has one."""
    turn = end_of_turn(tokenizer) if chat else None
    if turn is not None:
        return turn
    if tokenizer.eos_token_id is None:
        raise ConfigError("The tokenizer names no end token (`eos_token`); set one, or no text would ever end.")
    return int(tokenizer.eos_token_id)


def demonstration_ids(tokenizer: Any, prompt: Any, completion: Any) -> dict[str, list[int]]:
    """Return `input_ids` and `labels` of a demonstration; the prompt's labels are -100, so that only the completion
    and its end token are in the loss."""
    first = prompt_ids(tokenizer, prompt)
    second = completion_ids(tokenizer, completion, chat=not isinstance(prompt, str))
    return {"input_ids": first + second, "labels": [IGNORED] * len(first) + second}


def pair_ids(tokenizer: Any, prompt: Any, chosen: Any, rejected: Any) -> dict[str, list[int]]:
    """Return `prompt_ids`, `chosen_ids` and `rejected_ids` for TRL's preference collator."""
    chat = not isinstance(prompt, str)
    return {
        "prompt_ids": prompt_ids(tokenizer, prompt),
        "chosen_ids": completion_ids(tokenizer, chosen, chat),
        "rejected_ids": completion_ids(tokenizer, rejected, chat),
    }
