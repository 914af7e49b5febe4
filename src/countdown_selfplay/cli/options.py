"""The parser of the trainer commands. Recipe, config file and flags are three mappings from fields to values; one rule
says which wins, and the dataclasses of the command are built from the result."""

from __future__ import annotations

import argparse
import datetime
import inspect
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, fields, make_dataclass
from importlib import import_module
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from trl import ModelConfig, TrlParser

from ..config.countdown_fields import CountdownArguments, DomainFields
from ..config.recipes import over
from ..distributed.launch import refuse_lone_process
from ..errors import ConfigError, CountdownSelfPlayError
from ..registry import suggestion
from .commands import TRAINERS
from .help import SECTIONS, Option
from .plain import OneLineParser, underscored
from .sources import check_names, flat_names, read_sources

_KINDS = {
    "int": ("a whole number", "whole numbers"),
    "float": ("a number", "numbers"),
    "string_to_bool": ("true or false", ""),
    "str": ("a text", "texts"),
}
"""Name of the function that argparse converts a word with -> what the field takes, and what a list of it."""
_FEW = 12
"""So many choices are listed in an error."""


class OptionParser(OneLineParser, TrlParser):
    """Has a flag for each field of the dataclasses of a trainer command, and reads YAML values as those fields do."""

    def __init__(self, command: str) -> None:
        self.how = TRAINERS[command]
        places = [place.split(":") for place in self.how.models]
        self.models: list[Any] = [getattr(import_module(module), name) for module, name in places]
        self.flat = flat_names(self.how)
        classes = [*self.models, _flat_options(self.flat.values())]
        super().__init__(classes, prog=f"countdown-selfplay {command}", allow_abbrev=False)
        self.fields: dict[str, argparse.Action] = {}
        for action in self._actions:
            if action.dest != "help":
                self.fields.setdefault(action.dest, action)  # `report` has the flag --no_report too
        hints = {name: hint for model in classes for name, hint in get_type_hints(model).items()}
        self.takes = {name: _kinds(hints.get(name, str)) for name in self.fields}

    def options(self) -> list[Option]:
        """What --help and the documentation show of each field."""
        return [
            Option(
                name,
                self.section_of(name),
                {"string_to_bool": "bool", "int": "int", "float": "float"}.get(_converter(action), "text"),
                action.nargs,
                tuple(str(choice) for choice in action.choices or ()),
                getattr(action.default, "value", action.default),
                " ".join((action.help or "").replace("%%", "%").split()),
            )
            for name, action in self.fields.items()
        ]

    def section_of(self, name: str) -> str:
        """The section of a field in --help; "" for one that TRL or Transformers declares."""
        if name in self.flat:
            return str(self.flat[name].section)
        bases = (base for model in self.models for base in model.__mro__ if name in inspect.get_annotations(base))
        own = next((base for base in bases if base.__module__.startswith("countdown_selfplay")), None)
        if own is None:
            return ""
        return next((title for title, classes in SECTIONS.items() if own.__name__ in classes), next(iter(SECTIONS)))

    def given(self, argv: Sequence[str]) -> dict[str, Any]:
        """The fields that flags set, typed."""
        for action in self._actions:
            action.default, action.required = argparse.SUPPRESS, False
        return vars(self.parse_args(list(argv)))

    def built(self, model: Any, settings: Mapping[str, Any]) -> Any:
        """One of the dataclasses, with its own part of the settings."""
        names = {one.name for one in fields(model) if one.init}
        if model is self.models[1]:
            names |= set(self.flat)
        return model(**{name: settings[name] for name in names & set(settings)})

    def typed(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a YAML file as their fields take them; ConfigError where one does not."""
        return {name: value if name == "env" else self._value(name, value) for name, value in settings.items()}

    def _value(self, name: str, value: Any) -> Any:
        action, takes = self.fields[name], self.takes[name] - ({str} if self.fields[name].choices else set())
        listed = action.nargs in ("+", "*")
        if type(value) in takes and not (listed and isinstance(value, list)):
            return value
        one, several = _KINDS.get(_converter(action), _KINDS["str"])
        if listed:
            found = [_converted(action, word) for word in value] if isinstance(value, list) else [None]
            if None in found:
                raise ConfigError(f"`{name}` ({value}) must be a list of {several}.")
            return found
        if action.choices is not None:
            return _chosen(name, value, [str(choice) for choice in action.choices])
        found = _converted(action, value)
        if found is None:
            more = "".join(f", or a {word}" for kind, word in ((dict, "mapping"), (list, "list")) if kind in takes)
            raise ConfigError(f"`{name}` ({value}) must be {one}{more}.")
        return found


def _flat_options(flat: Iterable[Any]) -> type:
    """A dataclass of the options that are no fields of the config."""
    made = []
    for one in flat:
        usual: Any = {"default": one.default}
        if isinstance(one.default, list):
            usual = {"default_factory": one.default.copy}
        made.append((one.name, one.type, field(**usual, metadata={"help": one.help})))
    return make_dataclass("FlatOptions", made)


def _kinds(hint: Any) -> set[Any]:
    """The types of which a value in YAML is taken as it is."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return {get_origin(kind) or kind for kind in kinds} & {NoneType, bool, int, float, dict, list, str}


def _converted(action: argparse.Action, value: Any) -> Any:
    """A YAML value as the word that a user would write after the flag, converted; None if it cannot be."""
    kind = _converter(action)
    if kind == "str":
        return value if isinstance(value, str | bool) else str(value) if _plain(value) else None
    if not _plain(value) or (isinstance(value, bool) and kind != "string_to_bool"):
        return None
    if kind == "int" and isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        return action.type(str(value))  # type: ignore[operator,misc]
    except (ValueError, argparse.ArgumentTypeError):
        return None


def _converter(action: argparse.Action) -> str:
    """The name of the function that argparse converts a word with."""
    return getattr(action.type, "__name__", "str")


def _plain(value: Any) -> bool:
    return isinstance(value, str | bool | int | float | datetime.date)


def _chosen(name: str, value: Any, choices: list[str]) -> Any:
    chosen = "no" if value is False and "no" in choices else value  # YAML reads `no` as false
    if str(chosen) in choices:
        return chosen
    close = suggestion(str(chosen), choices)
    listed = ", ".join(choices) if len(choices) <= _FEW or not close else f"{len(choices)} values"
    raise ConfigError(f"`{name}` ({value}) must be one of {listed}.{close}")


def parse_options(command: str, argv: list[str]) -> tuple[Any, Any, ModelConfig]:
    """The script's arguments, the trainer's config and the model's options.

    Recipe < config file < flags; within each a role's own field wins over the plain one, but not over a plain one of a
    higher place. Unknown names are errors that suggest the nearest."""
    argv = [underscored(argument) for argument in argv]
    parser = OptionParser(command)
    refuse_lone_process()
    sources = read_sources(command, argv)
    check_names(parser.how, sources, parser.fields)
    training = parser.models[1]
    settings: dict[str, Any] = {}
    for file in (*(shipped for _, shipped in sources.shipped), sources.written):
        settings = over(settings, parser.typed(file), training)
    flags = parser.given(sources.argv)
    settings = over(settings, flags, training)
    named = set(settings)
    # Adapter dropout would make the sampled and the trained policy two different ones; TRL's default is 0.05.
    settings.setdefault("lora_dropout", 0.0)
    planned = _set_aside(settings)
    try:
        os.environ.update({key: str(value) for key, value in settings.pop("env", {}).items()})
        found = [parser.built(model, settings) for model in parser.models]
    except CountdownSelfPlayError:
        raise
    except ValueError as error:  # TrainingArguments and TRL's configs check their own fields with it
        raise ConfigError(f"Transformers or TRL refuses these settings: {error}") from error
    for name, value in planned.items():
        setattr(found[1], name, value)
    found[0].recipe = sources.recipe
    _refuse_countdowns(found, {*flags, *sources.written})
    _refuse_unread(found[2], named)
    return found[0], found[1], found[2]


def _set_aside(settings: dict[str, Any]) -> dict[str, Any]:
    """What a dry run plans for a machine that has it: TrainingArguments refuses bf16 where no GPU is."""
    if not settings.get("dry_run"):
        return {}
    return {name: settings.pop(name) for name in ("bf16", "bf16_full_eval") if settings.get(name)}


def _refuse_countdowns(found: Sequence[Any], named: set[str]) -> None:
    """Countdown's own fields, asked for beside another domain; those of a recipe are passed over."""
    domain = next(part.domain for part in found if isinstance(part, DomainFields))
    own = sorted(named & set(CountdownArguments.__dataclass_fields__))
    if own and domain != "countdown":
        raise ConfigError(
            f"`{own[0]}` is Countdown's, and `domain` is '{domain}'; leave it out, or set domain_kwargs."
        )


def _refuse_unread(model: ModelConfig, named: set[str]) -> None:
    """Options of the model that would be passed over."""
    if model.load_in_8bit or model.load_in_4bit:
        raise ConfigError(
            "`load_in_8bit` and `load_in_4bit` are not supported: the finished folder holds whole weights, which a "
            "quantized base would round; leave them unset."
        )
    adapter = sorted(name for name in named if name.startswith("lora_") or name in ("use_dora", "use_rslora"))
    if adapter and not model.use_peft:
        raise ConfigError(f"`{adapter[0]}` is read under --use_peft only; pass that too, or leave it unset.")
