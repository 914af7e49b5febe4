"""Parser of the trainer commands: SelfPlayParser with the sections of --help and the rules of each command."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from trl import ModelConfig

from ..config.recipes import underscored
from ..distributed.launch import refuse_lone_process
from ..parser import SelfPlayParser
from .commands import TRAINERS
from .help import SECTIONS, Option
from .sources import sources_of


class OptionParser(SelfPlayParser):
    """Parser of a trainer command."""

    def __init__(self, command: str) -> None:
        self.how = TRAINERS[command]
        places = [place.split(":") for place in self.how.models]
        self.models: list[Any] = [getattr(import_module(module), name) for module, name in places]
        super().__init__(self.models, prog=f"countdown-selfplay {command}")

    def options(self) -> list[Option]:
        """Return an Option for each field, for --help and the documentation."""
        return [
            Option(
                name,
                self.section_of(name),
                {"string_to_bool": "bool", "int": "int", "float": "float"}.get(
                    getattr(action.type, "__name__", ""), "text"
                ),
                action.nargs,
                tuple(str(choice) for choice in action.choices or ()),
                getattr(action.default, "value", action.default),
                " ".join((action.help or "").replace("%%", "%").split()),
            )
            for name, action in self.fields.items()
        ]

    def section_of(self, name: str) -> str:
        """Return the section of a field in --help; "" for a field of TRL or Transformers."""
        bases = (base for model in self.models for base in model.__mro__ if name in inspect.get_annotations(base))
        owner = next((base for base in bases if base.__module__.startswith("countdown_selfplay")), None)
        if owner is None:
            return ""
        return next((title for title, classes in SECTIONS.items() if owner.__name__ in classes), next(iter(SECTIONS)))


def parse_options(command: str, argv: list[str]) -> tuple[Any, Any, ModelConfig]:
    """Parse `argv` into the script's arguments, the trainer's config and the model's options."""
    argv = [underscored(argument) for argument in argv]
    parser = OptionParser(command)
    refuse_lone_process()
    sources = sources_of(command, argv)
    sources.check_names(parser.fields, parser.how.elsewhere)
    settings = parser.settings(sources)
    planned: dict[str, Any] = {}
    if settings.get("dry_run"):  # bf16 is refused without a GPU, and the plan may be for a machine that has one
        planned = {name: settings.pop(name) for name in ("bf16", "bf16_full_eval") if settings.get(name)}
    script, training, model, *_ = parser.built(settings)
    for name, value in planned.items():
        setattr(training, name, value)
    return script, training, model
