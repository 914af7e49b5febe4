"""Prompts of all roles: a tokenizer and a table of completions take them, and the tokens that end their answers."""

from __future__ import annotations

from typing import Any

from ..config import JointSelfPlayConfig
from ..domains import example_rows, name_of
from ..errors import ConfigError
from ..evaluation.sampling import check_stop_strings, end_token_ids
from ..policies import PolicySet


def check_prompts(args: JointSelfPlayConfig, domain: Any, rows: Any, tokenizer: Any) -> None:
    """ConfigError for a chat prompt of a model that knows no chats and for a stop string that its tokenizer cannot
    write, with which the first round would fail, and for two kinds of prompt in TRL's table of completions, whose
    prompt column has one type."""
    said = domain.to_dict()
    asked = _examples(args, domain, rows)
    chats = [
        f"`{kind}_prompt` ({said.get(f'{kind}_prompt', name_of(domain))})"
        for kind, row in asked.items()
        if isinstance(row["prompt"], list)
    ]
    if chats and not getattr(tokenizer, "chat_template", None):
        cure = "set `tokenizer.chat_template`, or play a domain with prompts of plain text."
        if "prover_prompt" in said:
            cure = (
                "set both to compact (the embedded model and what was warm-started from it), or "
                "prover_prompt=tinyzero and conjecturer_prompt=completion."
            )
        raise ConfigError(
            f"{' and '.join(chats)} {'holds' if len(chats) == 1 else 'hold'} a chat, and the tokenizer has no chat "
            f"template; {cure}"
        )
    for settings in args.all_roles.values():
        check_stop_strings(tokenizer, settings.stops(domain))
    if args.log_completions and 0 < len(chats) < len(asked):
        raise ConfigError(
            "`log_completions` (True) cannot hold one role's chats and the other's texts in one table; "
            "leave it unset: samples.jsonl in the run folder holds examples of both."
        )


def end_tokens(args: JointSelfPlayConfig, domain: Any, rows: Any, policies: PolicySet, tokenizer: Any) -> list[int]:
    """Tokens that end a completion of any role; evaluation stops at them too. The end of a chat turn is among them."""
    chat = any(isinstance(row["prompt"], list) for row in _examples(args, domain, rows).values())
    found: list[int] = []
    for role in policies.roles:
        with policies.active(role):
            found += end_token_ids(policies.module, tokenizer, chat)
    return list(dict.fromkeys(found))


def _examples(args: JointSelfPlayConfig, domain: Any, rows: Any) -> dict[str, dict[str, Any]]:
    """A row that asks each kind of role that the domain knows."""
    return example_rows(domain, bool(args.players_of("conjecturer")), rows)
