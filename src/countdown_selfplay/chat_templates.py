"""Rendering of prompts: chat messages to the token ids that a model sees.

Variables (`chat_template_kwargs`), and the rewriting of a system message that the template refuses, become a preamble
of the tokenizer's chat template, so that TRL and users of the exported model render the same prompts as in
training."""

import copy
import inspect
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from .errors import ConfigError, DataError, PromptError
from .options import json_object

logger = logging.getLogger(__name__)


def ready(tokenizer: Any, prompts: Iterable[Any], chat_template_kwargs: Any = None) -> Any:
    """Return `tokenizer`, or a copy with a changed chat template, that renders all `prompts` with
    `chat_template_kwargs` as default variables. Only one prompt per sequence of message roles is rendered. If the
    template refuses or omits a system message, the message is put before the user's text, with a warning. Raises
    PromptError if a prompt cannot be rendered, and ConfigError for an invalid variable name."""
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
"""Preamble of a chat template that puts a system message's text and an empty line before the user's text."""


@cache
def _say(text: str) -> None:
    logger.warning(text)


def _defaults(tokenizer: Any, given: Any) -> str:
    """Return a preamble that sets default values of template variables. Raises ConfigError for an invalid name."""
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
    """Return the tokenizer if its templates hold the preamble, else a copy whose templates do."""
    template = tokenizer.chat_template
    named = template if isinstance(template, Mapping) else {"": template}
    if all(preamble in one for one in named.values()):
        return tokenizer
    found, changed = copy.copy(tokenizer), {name: preamble + one for name, one in named.items()}
    found.chat_template = changed if isinstance(template, Mapping) else changed[""]
    return found


def _fault(tokenizer: Any, chats: Iterable[Any]) -> PromptError | None:
    """Return the PromptError of the first chat that the template refuses or of which it omits a message; else None."""
    for chat in chats:
        try:
            text = _question(tokenizer, chat)
        except PromptError as error:
            return error
        for i, message in enumerate(chat):
            if message["role"] not in ("system", "user"):
                continue
            more = {**message, "content": f"{message['content']} 7"}
            with suppress(PromptError):
                if _question(tokenizer, [*chat[:i], more, *chat[i + 1 :]]) == text:  # the message has no effect
                    return PromptError(
                        f"The model's chat template leaves out the {message['role']}'s message "
                        f"({message['content'][:40]!r}); set `tokenizer.chat_template` to one that writes it, or take "
                        "a prompt of plain text."
                    )
    return None


def _question(tokenizer: Any, chat: Any) -> str:
    return str(_rendered(tokenizer, chat, tokenize=False, add_generation_prompt=True))


def _check_template(tokenizer: Any) -> None:
    if getattr(tokenizer, "chat_template", None) is None:
        raise PromptError(
            "The prompt is a list of chat messages and the tokenizer has no chat template; use a prompt of plain "
            "text, such as 'tinyzero' or 'compact', or set `tokenizer.chat_template`."
        )


def _rendered(tokenizer: Any, chat: Any, **how: Any) -> Any:
    """Render a chat by `apply_chat_template(chat, **how)`. Raises PromptError if the tokenizer has no template, and
    for any error that the template raises."""
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


def prompt_ids(tokenizer: Any, prompt: Any) -> list[int]:
    """Return the token ids of a prompt: a text, or chat messages with the template's generation prompt. `tokenizer`:
    result of `ready`. Raises DataError for a prompt without a token."""
    if isinstance(prompt, str):
        ids = tokenizer(prompt)["input_ids"]
    else:
        ids = _rendered(tokenizer, prompt, add_generation_prompt=True, return_dict=True)["input_ids"]
    if not ids:
        raise DataError(f"The prompt {str(prompt)[:60]!r} has no token.")
    return list(ids)


def end_of_turn(tokenizer: Any) -> int | None:
    """Return the id of the special token that ends an assistant's message in the chat template, or None."""
    turn = [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}]
    rendered = _rendered(tokenizer, turn, tokenize=False)
    after = tokenizer(rendered[rendered.rfind("2") + 1 :], add_special_tokens=False)["input_ids"]
    added = tokenizer.added_tokens_decoder  # some tokenizers mark the token here only
    special = after and (after[0] in tokenizer.all_special_ids or (after[0] in added and added[after[0]].special))
    return int(after[0]) if special else None
