"""Sampling settings, the generation config made of them, and the rendering of prompts, for rollouts, evaluations,
probes, demonstrations, warm starts, `eval`, `ask` and exports. Settings of a run's prompts (`chat_template_kwargs`, a
system message that the template refuses) become a preamble of the tokenizer's chat template, so that TRL, and users of
the exported model, render the prompts of training."""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypedDict

from .errors import ConfigError, DataError, PromptError
from .options import is_whole, json_object
from .registry import nearest

logger = logging.getLogger(__name__)


class Asked(TypedDict, total=False):
    """All sampling settings; DEFAULTS for absent names."""

    temperature: float
    top_p: float | None
    top_k: int | None
    min_p: float | None
    repetition_penalty: float
    max_new_tokens: int
    stop_strings: Sequence[str] | None
    generation_kwargs: Mapping[str, Any]
    chat_template_kwargs: Mapping[str, Any]


DEFAULTS: dict[str, Any] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "max_new_tokens": 256,
    "stop_strings": [],
    "generation_kwargs": {},
    "chat_template_kwargs": {},
}
"""Values without effect. `stop_strings` of an evaluation may be None, for those of the domain."""
SHARED = ("min_p", "repetition_penalty", "generation_kwargs", "chat_template_kwargs")
"""Settings of a run that all roles share, in fields of these names."""

GENERATION_KWARGS = {
    "typical_p": "TypicalLogitsWarper",
    "epsilon_cutoff": "EpsilonLogitsWarper",
    "eta_cutoff": "EtaLogitsWarper",
    "no_repeat_ngram_size": "NoRepeatNGramLogitsProcessor",
    "bad_words_ids": "NoBadWordsLogitsProcessor",
    "sequence_bias": "SequenceBiasLogitsProcessor",
    "suppress_tokens": "SuppressTokensLogitsProcessor",
    "begin_suppress_tokens": "SuppressTokensAtBeginLogitsProcessor",
    "min_new_tokens": "MinNewTokensLengthLogitsProcessor",
    "exponential_decay_length_penalty": "ExponentialDecayLengthPenalty",
}
"""Arguments of Transformers' GenerationConfig allowed in `generation_kwargs`: those without a field that act in every
sampling loop -> the logits processor that checks their values."""
_DRAWING = ("typical_p", "epsilon_cutoff", "eta_cutoff")  # without effect at temperature 0
_FIELD_OF = {  # arguments of generation that follow from fields -> those
    **{name: name for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed")},
    **dict.fromkeys(("max_new_tokens", "max_length", "max_tokens"), "max_completion_length"),
    **dict.fromkeys(("stop_strings", "stop"), "prover_stop and conjecturer_stop"),
    **dict.fromkeys(("num_return_sequences", "n"), "num_generations"),
    "cache_implementation": "cache_implementation",
}
UNDER_VLLM = ("min_new_tokens", "suppress_tokens")
"""Entries with other names in vLLM: evaluations by `generate` and rollouts then have one distribution."""


def _processor(name: str, value: Any) -> None:
    """Build the processor of an entry of `generation_kwargs`, to check its value."""
    from transformers import generation

    kind = getattr(generation, GENERATION_KWARGS[name])
    more = {"begin_suppress_tokens": (1,), "exponential_decay_length_penalty": ([0], 1)}.get(name, ())
    kind(1, value, 0) if name == "min_new_tokens" else kind(value, *more)


def shared_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return SHARED of a run's configuration as a mapping, also from a run.json without these fields."""
    return {name: DEFAULTS[name] if config.get(name) is None else config[name] for name in SHARED}


def check_generation_kwargs(given: Any, backend: str = "generate") -> dict[str, Any]:
    """Return `generation_kwargs` as a dict. Raises ConfigError unless all of it acts in every sampling loop; for names
    with a field it names the field, because roles, evaluations and records read the field."""
    parsed = json_object("generation_kwargs", given, '{"suppress_tokens": [5]}')
    known = UNDER_VLLM if backend in ("vllm", "vllm_server") else tuple(GENERATION_KWARGS)
    for name, value in parsed.items():
        if name in _FIELD_OF:
            raise ConfigError(
                f"`generation_kwargs` must not hold {name} ({value}): it follows from {_FIELD_OF[name]}; set that."
            )
        if name not in known:
            under = f" under generation_backend={backend}" if known is UNDER_VLLM else ""
            raise ConfigError(
                f"`generation_kwargs` ({given}) cannot hold {name}: it does not act in all of a run's sampling{under}."
                f"{nearest(str(name), list(known))}"
            )
        try:
            _processor(name, value)
        except Exception as error:  # a processor of Transformers may raise anything for a wrong value
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise ConfigError(f"`generation_kwargs` holds {name} ({value!r}), which cannot be: {first}") from None
    return parsed


def check_token_ids(given: Mapping[str, Any], count: int) -> None:
    """Raise ConfigError if `generation_kwargs` names a token that a model with `count` embeddings does not have."""
    named: list[Any] = [*given.get("suppress_tokens", ()), *given.get("begin_suppress_tokens", ())]
    named += [i for word in given.get("bad_words_ids", ()) for i in word]
    bias = given.get("sequence_bias", {})
    named += [i for word in bias for i in (word[0] if isinstance(bias, list) else word)]
    for one in named:
        if not is_whole(one, 0) or one >= count:
            raise ConfigError(
                f"`generation_kwargs` ({dict(given)}) names the token {one!r}, and the model's tokens are 0 to "
                f"{count - 1}; name one of them."
            )


def sampling_of(args: Any, role: Any, stops: Sequence[str] | None) -> dict[str, Any]:
    """Return a player's sampling settings, all names of DEFAULTS. `role`: its Role; `stops`: its stop strings."""
    sampling = {name: getattr(role, name) for name in ("temperature", "top_p", "top_k")}
    sampling |= {"max_new_tokens": role.max_completion_length, "stop_strings": list(stops or [])}
    return sampling | shared_of({name: getattr(args, name) for name in SHARED})


def generation_settings(sampling: Mapping[str, Any], ends: Sequence[int], pad: int | None) -> dict[str, Any]:
    """Return the arguments of GenerationConfig. `sampling`: values for names of DEFAULTS, the defaults of others.
    `ends`: ids that end a text. `pad`: None for the first of them."""
    how = {**DEFAULTS, **{name: value for name, value in sampling.items() if value is not None}}
    drawn = how["temperature"] > 0
    least, most = how["generation_kwargs"].get("min_new_tokens", 0), how["max_new_tokens"]
    if least > most:
        raise ConfigError(
            f"`min_new_tokens` ({least}) of `generation_kwargs` must be at most the tokens of an answer, {most}."
        )
    values = {
        "do_sample": drawn,
        "max_new_tokens": how["max_new_tokens"],
        "repetition_penalty": float(how["repetition_penalty"]),
        "eos_token_id": list(ends),
        "pad_token_id": ends[0] if pad is None else pad,
        **({"stop_strings": list(how["stop_strings"])} if how["stop_strings"] else {}),
        **{n: v for n, v in how["generation_kwargs"].items() if drawn or n not in _DRAWING},
    }
    if drawn:
        values |= {
            "temperature": float(how["temperature"]),
            "top_p": float(how["top_p"]),
            "top_k": int(how["top_k"]),
        }
        values["min_p"] = float(how["min_p"]) or None  # 0 would make a processor without effect
    return values


def ready(tokenizer: Any, prompts: Iterable[Any], chat_template_kwargs: Any = None) -> Any:
    """Return a tokenizer whose chat template renders all of `prompts` with `chat_template_kwargs` as defaults: the
    argument, or a copy with another template. One prompt of each order of roles is rendered, and an answer. A system
    message that the template refuses or omits is moved to the beginning of the user's, which is logged once. Raises
    PromptError if the template still fails."""
    chats = {tuple(message["role"] for message in chat): chat for chat in prompts if not isinstance(chat, str)}
    if not chats:
        return tokenizer
    _check_template(tokenizer)
    tokenizer_ready = _with_preamble(tokenizer, _defaults(tokenizer, chat_template_kwargs))
    fault = _fault(tokenizer_ready, chats.values())
    if fault is not None:
        tokenizer_ready = _with_preamble(tokenizer_ready, _FOLD)
        if not any("system" in roles for roles in chats) or _fault(tokenizer_ready, chats.values()) is not None:
            raise fault
        _say("The chat template takes no system message: its text is put at the beginning of the user's message.")
    end_of_turn(tokenizer_ready)
    return tokenizer_ready


_FOLD = (
    "{% if messages | length > 1 and messages[0]['role'] == 'system' and messages[1]['role'] == 'user' %}"
    "{% set messages = [{'role': 'user', 'content': messages[0]['content'] ~ '\\n\\n' ~ messages[1]['content']}] "
    "+ messages[2:] %}{% endif %}\n"
)
"""Template preamble that moves a system message's text to the beginning of the user's."""


@cache
def _say(text: str) -> None:
    logger.warning(text)


def _defaults(tokenizer: Any, given: Any) -> str:
    """Return the preamble that sets variables which are not passed. Raises ConfigError for an invalid name."""
    kwargs = json_object("chat_template_kwargs", given, '{"enable_thinking": false}')
    taken = (
        {"messages", *inspect.signature(tokenizer.apply_chat_template).parameters} - {"kwargs"} if kwargs else set()
    )
    templates = tokenizer.chat_template
    text = "".join(templates.values()) if isinstance(templates, Mapping) else templates
    for name in kwargs:
        if name in taken or not name.isidentifier():
            raise ConfigError(
                f"`chat_template_kwargs` ({given}) must hold variables of the chat template, such as "
                f'{{"enable_thinking": false}}, and {name} is none; leave it out.'
            )
        if name not in text:
            _say(f"`chat_template_kwargs` sets {name}, which the model's chat template does not read.")
    lines = [f"{{% if {n} is not defined %}}{{% set {n} = {v!r} %}}{{% endif %}}\n" for n, v in kwargs.items()]
    return "".join(lines)


def _with_preamble(tokenizer: Any, preamble: str) -> Any:
    """Return the tokenizer if its templates contain the preamble, else a copy with it."""
    template = tokenizer.chat_template
    named = template if isinstance(template, Mapping) else {"": template}
    if all(preamble in one for one in named.values()):
        return tokenizer
    copied, changed = copy.copy(tokenizer), {name: preamble + one for name, one in named.items()}
    copied.chat_template = changed if isinstance(template, Mapping) else changed[""]
    return copied


def _fault(tokenizer: Any, chats: Iterable[Any]) -> PromptError | None:
    """Return the fault of the first chat that the template does not render, or whose questions it omits."""
    for chat in chats:
        try:
            text = _rendered(tokenizer, chat, tokenize=False, add_generation_prompt=True)
        except PromptError as error:
            return error
        for i, message in enumerate(chat):
            if message["role"] in ("system", "user") and _with_more(tokenizer, chat, i) == text:
                return PromptError(
                    f"The model's chat template leaves out the {message['role']}'s message "
                    f"({message['content'][:40]!r}); set `tokenizer.chat_template` to one that writes it, or take a "
                    "prompt of plain text."
                )
    return None


def _with_more(tokenizer: Any, chat: Sequence[Any], i: int) -> str | None:
    """Render a chat whose message `i` has additional text: the result is unchanged if the template omits that message.
    None if it cannot be rendered."""
    changed = [*chat[:i], {**chat[i], "content": f"{chat[i]['content']} 7"}, *chat[i + 1 :]]
    try:
        return str(_rendered(tokenizer, changed, tokenize=False, add_generation_prompt=True))
    except PromptError:
        return None


def _check_template(tokenizer: Any) -> None:
    if getattr(tokenizer, "chat_template", None) is None:
        raise PromptError(
            "The prompt is a list of chat messages and the tokenizer has no chat template; use a prompt of plain "
            "text, such as 'tinyzero' or 'compact', or set `tokenizer.chat_template`."
        )


def _rendered(tokenizer: Any, chat: Any, **how: Any) -> Any:
    """Render a chat through the chat template. Raises PromptError for any error in the template's code."""
    _check_template(tokenizer)
    try:
        return tokenizer.apply_chat_template(chat, **how)
    except Exception as error:
        first = (str(error).strip().splitlines() or [""])[0]
        roles = ", ".join(message["role"] for message in chat)
        raise PromptError(
            f"The model's chat template does not render a prompt of the messages {roles}: {type(error).__name__} "
            f"({first}); set `tokenizer.chat_template` or `chat_template_kwargs` to what renders it, or take a prompt "
            "of plain text (prover_prompt=tinyzero and conjecturer_prompt=completion)."
        ) from error


def prompt_ids(tokenizer: Any, prompt: Any, *, asks: bool = True) -> list[int]:
    """Return the ids of a model's prompt: a text, or chat messages through the chat template of a tokenizer that is
    `ready`. asks: whether a chat ends with the beginning of an answer."""
    if isinstance(prompt, str):
        ids = tokenizer(prompt)["input_ids"]
    else:
        ids = _rendered(tokenizer, prompt, add_generation_prompt=asks, return_dict=True)["input_ids"]
    if not ids:
        raise DataError(f"The prompt {str(prompt)[:60]!r} has no token.")
    return list(ids)


def end_of_turn(tokenizer: Any) -> int | None:
    """Return the id that the chat template puts after an assistant's turn; None if that is not a special token."""
    turn = [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}]
    rendered = _rendered(tokenizer, turn, tokenize=False)
    after = tokenizer(rendered[rendered.rfind("2") + 1 :], add_special_tokens=False)["input_ids"]
    added = tokenizer.added_tokens_decoder  # some tokenizers mark the token here only
    special = after and (after[0] in tokenizer.all_special_ids or (after[0] in added and added[after[0]].special))
    return int(after[0]) if special else None
