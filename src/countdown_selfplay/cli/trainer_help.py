"""`--help` of the trainer commands: the library's own fields by section, TRL's most used ones, the rest on request."""

from __future__ import annotations

import argparse
import inspect
import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

ALL = ("--help-all", "--help_all")
_COLUMN = 30  # where the explanations begin
_SECTIONS = {  # class that declares a field -> its section
    "RoleFields": "Both roles",
    "CurriculumFields": "Rounds: proposals, rewards, anchors",
    "DomainFields": "Problems and prompts",
    "CountdownFields": "Problems and prompts",
    "GuardFields": "Collapse guard",
    "GenerationFields": "Generation backend",
    "JointSelfPlayConfig": "Run",
    "SFTSettings": "Run",
    "IPOSettings": "Run",
}
_FIRST = "Data, evaluation, report"
_ORDER = (
    *(_FIRST, "Problems and prompts", "Rounds: proposals, rewards, anchors", "The prover", "The conjecturer"),
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


def section_of(name: str, classes: Sequence[type]) -> str | None:
    """The section of a field, None for one that TRL or Transformers declares."""
    for one in classes:
        for base in one.__mro__:
            if name in inspect.get_annotations(base):
                if not base.__module__.startswith("countdown_selfplay"):
                    break
                title = _SECTIONS.get(base.__name__, _FIRST)
                if title == "Both roles" and name.partition("_")[0] in ("prover", "conjecturer"):
                    return f"The {name.partition('_')[0]}"
                return title
    return None


def titles() -> tuple[str, ...]:
    """The sections in their order."""
    return _ORDER


def help_text(parser: argparse.ArgumentParser, classes: Sequence[type], everything: bool) -> str:
    """`classes`: the dataclasses behind the parser's options. Each option is listed once; `everything`: with TRL's and
    Transformers' fields."""
    sections: dict[str, list[argparse.Action]] = {}
    borrowed: dict[str, argparse.Action] = {}
    for action in parser._actions:
        long = next((name for name in action.option_strings if name.startswith("--")), "")
        if not long or action.dest == "help" or long.startswith("--no_"):
            continue
        title = section_of(action.dest, classes)
        if title is None or (title == "Run" and action.dest in _USED):
            borrowed[action.dest] = action
        else:
            sections.setdefault(title, []).append(action)
    used = [borrowed.pop(name) for name in _USED if name in borrowed]
    lines = [f"usage: {parser.prog} [--recipe NAME] [--config FILE] [--FIELD VALUE ...]", *_paragraph(parser.epilog)]
    for title in _ORDER:
        if title in sections:
            lines += ["", f"{title}:", *_entries(sections[title])]
    lines += ["", "From TRL and Transformers, the most used:", *_entries(used, brief=not everything)]
    if everything:
        lines += ["", "From TRL and Transformers, all others:", *_entries(borrowed.values())]
    else:
        lines += ["", f"`{parser.prog} --help-all` lists the other {len(borrowed)} fields of TRL and Transformers."]
    lines.append("Launch options (--accelerate_config, --num_processes, ...): `countdown-selfplay --help`.")
    return "\n".join(lines) + "\n"


def _entries(actions: Iterable[argparse.Action], brief: bool = False) -> list[str]:
    """`brief`: the first sentence of each explanation."""
    width = min(shutil.get_terminal_size((80, 24)).columns, 110)
    lines = []
    for action in actions:
        head = f"  --{action.dest} {_kind(action)}".rstrip()
        text = " ".join(_explanation(action, brief).split())
        body = textwrap.wrap(text, max(width - _COLUMN, 30))
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
    name = getattr(action.type, "__name__", "")
    kind = name.upper() if name in ("int", "float") else "TEXT"
    return f"{kind} ..." if action.nargs in ("+", "*") else kind


def _explanation(action: argparse.Action, brief: bool) -> str:
    text = (action.help or "").replace("%%", "%")
    if brief:
        text = re.split(r"(?<=[a-z`)])\.\s", text, maxsplit=1)[0].rstrip(".") + "."
    default: Any = action.default
    if default in (None, "", argparse.SUPPRESS) or "default" in text.lower():
        return text
    return f"{text} (default: {default})"


def _paragraph(text: str | None) -> list[str]:
    return ["", *(text or "").strip().splitlines()] if text else []
