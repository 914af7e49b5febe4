"""How a model is asked, in one place: the settings of sampling, the generation config that they make, and the
rendering of prompts. Rollouts, evaluations, probes, demonstrations, warm starts, `eval`, `ask` and exports go through
it.

The settings of a run's prompts (`chat_template_kwargs`, a system message that the template refuses) become a preamble
of the tokenizer's chat template: TRL, and users of the exported model, then render the prompts of training.
"""

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
    """All that a model is asked with; DEFAULTS where a name is left out."""

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
"""The values that change nothing. `stop_strings` of an evaluation may be None, for those of the domain."""
SHARED = ("min_p", "repetition_penalty", "generation_kwargs", "chat_template_kwargs")
"""Those that a run has for all roles, in fields of these names."""

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
"""What `generation_kwargs` may hold: arguments of Transformers' GenerationConfig that act in every sampling loop here
and that no field has -> the processor of scores that each one becomes, which checks its value."""
_DRAWING = ("typical_p", "epsilon_cutoff", "eta_cutoff")  # at temperature 0 they have nothing to do
_FIELD_OF = {  # arguments of generation that follow from fields -> those
    **{name: name for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed")},
    **dict.fromkeys(("max_new_tokens", "max_length", "max_tokens"), "max_completion_length"),
    **dict.fromkeys(("stop_strings", "stop"), "prover_stop and conjecturer_stop"),
    **dict.fromkeys(("num_return_sequences", "n"), "num_generations"),
    "cache_implementation": "cache_implementation",
}
UNDER_VLLM = ("min_new_tokens", "suppress_tokens")
"""Of `generation_kwargs` those that vLLM has by another name: an evaluation that `generate` samples, and rollouts
then come from one distribution."""


def _processor(name: str, value: Any) -> None:
    """Make the processor of an entry of `generation_kwargs`, for what it says of the value."""
    from transformers import generation

    kind = getattr(generation, GENERATION_KWARGS[name])
    more = {"begin_suppress_tokens": (1,), "exponential_decay_length_penalty": ([0], 1)}.get(name, ())
    kind(1, value, 0) if name == "min_new_tokens" else kind(value, *more)


def shared_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """SHARED of a run's configuration as a mapping, that of a run.json from before these fields included."""
    return {name: DEFAULTS[name] if config.get(name) is None else config[name] for name in SHARED}


def check_generation_kwargs(given: Any, backend: str = "generate") -> dict[str, Any]:
    """`generation_kwargs` as a dict. ConfigError unless all of it acts in every sampling loop of a run, with the field
    for what has one: a name there overrides no field, for a role, an evaluation and a record would not know of it."""
    found = json_object("generation_kwargs", given, '{"suppress_tokens": [5]}')
    known = UNDER_VLLM if backend in ("vllm", "vllm_server") else tuple(GENERATION_KWARGS)
    for name, value in found.items():
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
        except Exception as error:  # whatever a processor of Transformers makes of a wrong value
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise ConfigError(f"`generation_kwargs` holds {name} ({value!r}), which cannot be: {first}") from None
    return found


def check_token_ids(given: Mapping[str, Any], count: int) -> None:
    """ConfigError if `generation_kwargs` names a token that a model with `count` embeddings does not have."""
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
    """How a run asks a player: values for all names of asking.DEFAULTS. `role`: its Role; `stops`: the texts that end
    its samples."""
    own = {name: getattr(role, name) for name in ("temperature", "top_p", "top_k")}
    own |= {"max_new_tokens": role.max_completion_length, "stop_strings": list(stops or [])}
    return own | shared_of({name: getattr(args, name) for name in SHARED})


def generation_settings(sampling: Mapping[str, Any], ends: Sequence[int], pad: int | None) -> dict[str, Any]:
    """The arguments of GenerationConfig. `sampling`: values for names of DEFAULTS, which hold for the others; other
    entries are left alone. `ends`: the ids that end a text. `pad`: None for the first of them."""
    how = {**DEFAULTS, **{name: value for name, value in sampling.items() if value is not None}}
    drawn = how["temperature"] > 0
    least, most = how["generation_kwargs"].get("min_new_tokens", 0), how["max_new_tokens"]
    if least > most:
        raise ConfigError(
            f"`min_new_tokens` ({least}) of `generation_kwargs` must be at most the tokens of an answer, {most}."
        )
    found = {
        "do_sample": drawn,
        "max_new_tokens": how["max_new_tokens"],
        "repetition_penalty": float(how["repetition_penalty"]),
        "eos_token_id": list(ends),
        "pad_token_id": ends[0] if pad is None else pad,
        **({"stop_strings": list(how["stop_strings"])} if how["stop_strings"] else {}),
        **{n: v for n, v in how["generation_kwargs"].items() if drawn or n not in _DRAWING},
    }
    if drawn:
        found |= {"temperature": float(how["temperature"]), "top_p": float(how["top_p"]), "top_k": int(how["top_k"])}
        found["min_p"] = float(how["min_p"]) or None  # 0 would make a processor that does nothing
    return found


def ready(tokenizer: Any, prompts: Iterable[Any], chat_template_kwargs: Any = None) -> Any:
    """The tokenizer whose chat template renders all of `prompts`, with `chat_template_kwargs` where its caller passes
    no others: itself, or a copy with another template. One prompt of each order of roles is tried, and an answer. A
    system message that the template refuses or leaves out is put at the beginning of the user's, which is
    said once; PromptError for a template that does not render the prompts even so."""
    chats = {tuple(message["role"] for message in chat): chat for chat in prompts if not isinstance(chat, str)}
    if not chats:
        return tokenizer
    _check_template(tokenizer)
    asked = _with_preamble(tokenizer, _defaults(tokenizer, chat_template_kwargs))
    fault = _fault(asked, chats.values())
    if fault is not None:
        asked = _with_preamble(asked, _FOLD)
        if not any("system" in roles for roles in chats) or _fault(asked, chats.values()) is not None:
            raise fault
        _say("The chat template takes no system message: its text is put at the beginning of the user's message.")
    end_of_turn(asked)
    return asked


_FOLD = (
    "{% if messages | length > 1 and messages[0]['role'] == 'system' and messages[1]['role'] == 'user' %}"
    "{% set messages = [{'role': 'user', 'content': messages[0]['content'] ~ '\\n\\n' ~ messages[1]['content']}] "
    "+ messages[2:] %}{% endif %}\n"
)
"""Of a template: puts a system message's text at the beginning of the user's. The line's end goes with the block's."""


@cache
def _say(text: str) -> None:
    logger.warning(text)


def _defaults(tokenizer: Any, given: Any) -> str:
    """The preamble that sets variables which are not passed. ConfigError for a name that cannot be one."""
    kwargs = json_object("chat_template_kwargs", given, '{"enable_thinking": false}')
    own = {"messages", *inspect.signature(tokenizer.apply_chat_template).parameters} - {"kwargs"} if kwargs else set()
    templates = tokenizer.chat_template
    text = "".join(templates.values()) if isinstance(templates, Mapping) else templates
    for name in kwargs:
        if name in own or not name.isidentifier():
            raise ConfigError(
                f"`chat_template_kwargs` ({given}) must hold variables of the chat template, such as "
                f'{{"enable_thinking": false}}, and {name} is none; leave it out.'
            )
        if name not in text:
            _say(f"`chat_template_kwargs` sets {name}, which the model's chat template does not read.")
    lines = [f"{{% if {n} is not defined %}}{{% set {n} = {v!r} %}}{{% endif %}}\n" for n, v in kwargs.items()]
    return "".join(lines)


def _with_preamble(tokenizer: Any, preamble: str) -> Any:
    """The tokenizer, if its templates hold the preamble, or a copy of it whose templates do."""
    template = tokenizer.chat_template
    named = template if isinstance(template, Mapping) else {"": template}
    if all(preamble in one for one in named.values()):
        return tokenizer
    found, changed = copy.copy(tokenizer), {name: preamble + one for name, one in named.items()}
    found.chat_template = changed if isinstance(template, Mapping) else changed[""]
    return found


def _fault(tokenizer: Any, chats: Iterable[Any]) -> PromptError | None:
    """Of the first chat that the template does not render, or whose questions it leaves out."""
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
    """The rendering of a chat whose message `i` says more: the same if the template leaves that message out, whatever
    else it makes of messages. None where it cannot be rendered."""
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
    """A chat through the chat template. PromptError, in a sentence, for whatever the template raises: it is a program
    of the model's own."""
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
    """The ids that the model sees when it is asked: a text, or chat messages through the chat template of a tokenizer
    that is `ready`. asks: of a chat, with the beginning of an answer."""
    if isinstance(prompt, str):
        ids = tokenizer(prompt)["input_ids"]
    else:
        ids = _rendered(tokenizer, prompt, add_generation_prompt=asks, return_dict=True)["input_ids"]
    if not ids:
        raise DataError(f"The prompt {str(prompt)[:60]!r} has no token.")
    return list(ids)


def end_of_turn(tokenizer: Any) -> int | None:
    """The id that the chat template puts after an assistant's turn; None if that is not a special token."""
    turn = [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}]
    rendered = _rendered(tokenizer, turn, tokenize=False)
    after = tokenizer(rendered[rendered.rfind("2") + 1 :], add_special_tokens=False)["input_ids"]
    added = tokenizer.added_tokens_decoder  # some tokenizers mark the token here only
    special = after and (after[0] in tokenizer.all_special_ids or (after[0] in added and added[after[0]].special))
    return int(after[0]) if special else None
