"""`--help` of the trainer commands: the library's own options by section and TRL's most used ones, in brief;
`--help-all` the rest, and whole explanations."""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .options import OptionParser

_COLUMN = 30  # where the explanations begin
SECTIONS = {  # class that declares a field -> its section
    "RoleFields": "Both roles",
    "CurriculumFields": "Rounds: proposals, rewards, anchors",
    "DomainFields": "Problems and prompts",
    "EvaluationFields": "Problems and prompts",
    "CountdownArguments": "Problems and prompts",
    "GuardFields": "Collapse guard",
    "GenerationFields": "Generation backend",
    "EngineFields": "Generation backend",
    "RunFields": "Run",
    "SelfPlaySettings": "Run",
    "SFTSettings": "Run",
    "IPOSettings": "Run",
}
FIRST = "Data, evaluation, report"
TITLES = (
    *(FIRST, "Problems and prompts", "Rounds: proposals, rewards, anchors", "The prover", "The conjecturer"),
    *("Both roles", "Collapse guard", "Generation backend", "Run"),
)  # fmt: skip
_USED = (
    *("model_name_or_path", "dtype", "use_peft", "lora_r", "lora_alpha", "output_dir", "max_steps"),
    *("num_train_epochs", "per_device_train_batch_size", "num_generations", "max_completion_length", "max_length"),
    *("temperature", "top_p"),
    *("learning_rate", "lr_scheduler_type", "warmup_steps", "weight_decay", "max_grad_norm", "beta", "entropy_coef"),
    *("bf16", "gradient_checkpointing", "seed", "eval_strategy", "eval_steps", "save_strategy", "save_steps"),
    *("save_total_limit", "resume_from_checkpoint", "report_to", "run_name", "disable_tqdm"),
)  # fmt: skip


def help_text(parser: OptionParser, everything: bool) -> str:
    """The options by section. `everything`: with their whole explanations, and all fields of TRL and Transformers."""
    sections: dict[str, list[argparse.Action]] = {}
    borrowed: dict[str, argparse.Action] = {}
    for name, action in parser.fields.items():
        title = parser.section_of(name)
        if title is None or (title == "Run" and name in _USED):
            borrowed[name] = action
        elif everything or not _said_of_the_prover(parser, name):
            sections.setdefault(title, []).append(action)
    used = [borrowed.pop(name) for name in _USED if name in borrowed]
    lines = [f"usage: {parser.prog} [--recipe NAME] [--config FILE] [--FIELD VALUE ...]", ""]
    lines += textwrap.wrap(" ".join((parser.epilog or "").split()), _width())
    entries = _entries if everything else _brief
    for title in TITLES:
        if title in sections:
            lines += ["", f"{title}:", *entries(sections[title])]
        if title == "The conjecturer" and title in sections and not everything:
            lines.append("  and each option of the prover, with conjecturer_ for prover_")
    lines += ["", "From TRL and Transformers, the most used:", *entries(used)]
    if everything:
        lines += ["", "From TRL and Transformers, all others:", *_entries(borrowed.values())]
    more = [f"--help-all: each option at length, and {len(borrowed)} more of TRL and Transformers."]
    if parser.how.kind == "joint":
        more.append(
            "--help-part KIND [NAME]: the arguments of the parts of a kind: game, domain, proposer, guide, objective, "
            "reward."
        )
    more.append("Launch options (--accelerate_config, --num_processes, ...): `countdown-selfplay --help`.")
    return "\n".join([*lines, "", *(line for one in more for line in textwrap.wrap(one, _width()))]) + "\n"


def _said_of_the_prover(parser: OptionParser, name: str) -> bool:
    """Whether an option of the conjecturer differs in nothing from that of the prover."""
    kind, _, setting = name.partition("_")
    twin = parser.fields.get(f"prover_{setting}")
    if kind != "conjecturer" or twin is None or parser.section_of(name) != "The conjecturer":
        return False
    own = parser.fields[name]
    return (own.default, own.help) == (twin.default, (twin.help or "").replace("prover", "conjecturer"))


def _width() -> int:
    return min(shutil.get_terminal_size((80, 24)).columns, 110)


def _brief(actions: Iterable[argparse.Action]) -> list[str]:
    """Name, default (without one the kind of value), and as much of the explanation as fits into two lines."""
    lines = []
    for action in actions:
        shown = _kind(action) if action.default in (None, "", [], argparse.SUPPRESS) else _word(action.default)
        head = f"  --{action.dest} {shown}".rstrip().ljust(_COLUMN) + "  "
        listed = (
            f" ({', '.join(map(str, action.choices))})" if action.choices and len(tuple(action.choices)) < 5 else ""
        )
        room = 2 * _width() - len(head) - _COLUMN - len(listed) - 6
        text = head + _cut(" ".join((action.help or "").replace("%%", "%").split()), room) + listed
        lines += textwrap.wrap(text, _width(), subsequent_indent=" " * (_COLUMN + 2))
    return lines


def _cut(text: str, room: int) -> str:
    """The first sentence, or of a longer one the clauses that fit."""
    found = re.split(r"(?<=[\w`)])\.\s", text, maxsplit=1)[0].rstrip(".")
    while len(found) > room or any(found.count(a) != found.count(b) for a, b in ("()", "{}")):
        shorter = re.sub(r"[,;:]? ?[,;:(][^,;:(]*$", "", found)
        if shorter == found:
            return textwrap.shorten(found, room, placeholder=" ...")
        found = re.sub(r"(, such as|,| such as)?( '\{\"\w+\")?$", "", shorter)
    return found


def _word(default: Any) -> str:
    if isinstance(default, list):
        return " ".join(map(str, default))
    value = default.value if isinstance(default, Enum) else default
    return str(value).lower() if isinstance(value, bool) else str(value)


def _entries(actions: Iterable[argparse.Action]) -> list[str]:
    lines = []
    for action in actions:
        head = f"  --{action.dest} {_kind(action)}".rstrip()
        text = " ".join((action.help or "").replace("%%", "%").split())
        if action.default not in (None, "", argparse.SUPPRESS) and "default" not in text.lower():
            text = f"{text} (default: {action.default})"
        body = textwrap.wrap(text, max(_width() - _COLUMN, 30))
        if body and len(head) < _COLUMN - 1:
            head += " " * (_COLUMN - len(head)) + body.pop(0)
        lines += [head, *(" " * _COLUMN + line for line in body)]
    return lines


def _kind(action: argparse.Action) -> str:
    if action.choices is not None:
        choices = "{" + ",".join(map(str, action.choices)) + "}"
        return choices if len(choices) < 60 else "NAME"
    if action.nargs == "?" or action.nargs == 0:
        return ""  # a switch; --no_NAME is its contrary
    kind = {"int": "INT", "float": "FLOAT"}.get(getattr(action.type, "__name__", "str"), "TEXT")
    return f"{kind} ..." if action.nargs in ("+", "*") else kind
