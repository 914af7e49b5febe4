"""The parser of the trainer commands. Recipe, config file and flags are three mappings from fields to values; one rule
says which wins, and the dataclasses of the command are built from the result. `--help` has the library's own options
by section and TRL's most used ones, in brief; `--help-all` the rest, and whole explanations."""

from __future__ import annotations

import argparse
import inspect
import re
import shutil
import textwrap
from collections.abc import Iterable
from enum import Enum
from importlib import import_module
from typing import Any

from trl import ModelConfig

from ..config.sources import underscored
from ..distributed.launch import refuse_lone_process
from ..parser import SelfPlayParser, converter
from .commands import TRAINERS
from .sources import HELP_FLAGS, check_names, sources_of


class OptionParser(SelfPlayParser):
    """The parser of a trainer command."""

    def __init__(self, command: str) -> None:
        self.how = TRAINERS[command]
        places = [place.split(":") for place in self.how.models]
        self.models: list[Any] = [getattr(import_module(module), name) for module, name in places]
        super().__init__(self.models, prog=f"countdown-selfplay {command}", epilog=self.how.epilog)

    def section_of(self, name: str) -> str | None:
        """The section of a field in --help; None for one that TRL or Transformers declares."""
        bases = (base for model in self.models for base in model.__mro__ if name in inspect.get_annotations(base))
        own = next((base for base in bases if base.__module__.startswith("countdown_selfplay")), None)
        return None if own is None else _SECTIONS.get(own.__name__, _FIRST)


def parse_options(command: str, argv: list[str]) -> tuple[Any, Any, ModelConfig]:
    """The script's arguments, the trainer's config and the model's options; SelfPlayParser says which source wins."""
    argv = [underscored(argument) for argument in argv]
    parser = OptionParser(command)
    if any(argument in HELP_FLAGS for argument in argv):
        print(help_text(parser, "--help_all" in argv), end="")
        raise SystemExit(0)
    refuse_lone_process()
    sources = sources_of(command, argv)
    check_names(parser.how, sources, parser.fields)
    settings = parser.settings(sources)
    planned = _set_aside(settings)
    script, training, model, *_ = parser.built(settings)
    for name, value in planned.items():
        setattr(training, name, value)
    return script, training, model


def _set_aside(settings: dict[str, Any]) -> dict[str, Any]:
    """What a dry run plans for a machine that has it: TrainingArguments refuses bf16 where no GPU is."""
    if not settings.get("dry_run"):
        return {}
    return {name: settings.pop(name) for name in ("bf16", "bf16_full_eval") if settings.get(name)}


# -- help ------------------------------------------------------------------------------------------------------------

_COLUMN = 30  # where the explanations begin
_SECTIONS = {  # class that declares a field -> its section
    "ProverFields": "The prover",
    "ConjecturerFields": "The conjecturer",
    "RoleFields": "Both roles",
    "Settings": "Rounds: proposals, rewards, anchors",
    "CurriculumFields": "Rounds: proposals, rewards, anchors",
    "DomainFields": "Problems and prompts",
    "EvaluationFields": "Problems and prompts",
    "CountdownProblems": "Problems and prompts",
    "CountdownArguments": "Problems and prompts",
    "GuardFields": "Collapse guard",
    "GenerationFields": "Generation backend",
    "EngineFields": "Generation backend",
    "RunFields": "Run",
    "SelfPlaySettings": "Run",
    "SFTSettings": "Run",
    "IPOSettings": "Run",
}
_FIRST = "Data, evaluation, report"
TITLES = (
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
    kind = {"int": "INT", "float": "FLOAT"}.get(converter(action), "TEXT")
    return f"{kind} ..." if action.nargs in ("+", "*") else kind
