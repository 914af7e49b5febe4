"""The parser of the trainer commands. Recipe, config file and flags are three mappings from fields to values; one rule
says which wins, and the dataclasses of the command are built from the result."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from trl import ModelConfig

from ..config.sources import underscored
from ..distributed.launch import refuse_lone_process
from ..parser import SelfPlayParser, converter
from .commands import TRAINERS
from .help import SECTIONS, Option
from .sources import check_names, sources_of


class OptionParser(SelfPlayParser):
    """The parser of a trainer command."""

    def __init__(self, command: str) -> None:
        self.how = TRAINERS[command]
        places = [place.split(":") for place in self.how.models]
        self.models: list[Any] = [getattr(import_module(module), name) for module, name in places]
        super().__init__(self.models, prog=f"countdown-selfplay {command}")

    def options(self) -> list[Option]:
        """What --help and the documentation show of each field."""
        return [
            Option(
                name,
                self.section_of(name),
                {"string_to_bool": "bool", "int": "int", "float": "float"}.get(converter(action), "text"),
                action.nargs,
                tuple(str(choice) for choice in action.choices or ()),
                getattr(action.default, "value", action.default),
                " ".join((action.help or "").replace("%%", "%").split()),
            )
            for name, action in self.fields.items()
        ]

    def section_of(self, name: str) -> str:
        """The section of a field in --help; "" for one that TRL or Transformers declares."""
        bases = (base for model in self.models for base in model.__mro__ if name in inspect.get_annotations(base))
        own = next((base for base in bases if base.__module__.startswith("countdown_selfplay")), None)
        if own is None:
            return ""
        return next((title for title, classes in SECTIONS.items() if own.__name__ in classes), next(iter(SECTIONS)))


def parse_options(command: str, argv: list[str]) -> tuple[Any, Any, ModelConfig]:
    """The script's arguments, the trainer's config and the model's options; SelfPlayParser says which source wins."""
    argv = [underscored(argument) for argument in argv]
    parser = OptionParser(command)
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
