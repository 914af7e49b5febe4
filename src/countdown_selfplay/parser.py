"""The command line of a script with a trainer: TRL's parser, recipes, and one rule for what wins."""

from __future__ import annotations

import argparse
import datetime
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, NoReturn, Union, get_args, get_origin, get_type_hints

from transformers import TrainingArguments
from trl import ModelConfig, TrlParser

from .config.countdown_fields import CountdownArguments
from .config.recipes import COUNTDOWN, as_fields, over
from .config.settings import SelfPlaySettings
from .config.sources import Sources, read_sources
from .distributed.launch import refuse_lone_process
from .errors import ConfigError, CountdownSelfPlayError
from .policies.build import model_arguments
from .registry import suggestion

_KINDS = {
    "int": ("a whole number", "whole numbers"),
    "float": ("a number", "numbers"),
    "string_to_bool": ("true or false", ""),
    "str": ("a text", "texts"),
}
"""Name of the function that argparse converts a word with -> what the field takes, and what a list of it."""
_FEW = 12
"""So many choices are listed in an error."""


class SelfPlayParser(TrlParser):
    """TRL's parser of dataclasses with recipes.

    `--config` takes a YAML file or the name of a recipe (so does `--recipe`, whose settings a file overrides), which
    may begin with another (`recipe:`). Recipe < file < flags; within each a role's own field wins over the plain one,
    but not over a plain one of a higher place. Countdown's arguments, if CountdownArguments is among the dataclasses,
    are in `domain_kwargs` of the config too. ConfigError for a name or a value that cannot be, in one sentence.

    Args:
        dataclass_types: One or several dataclasses, each with its fields as flags.
        recipe: What is played where neither a recipe, a config file nor a model is named.
    """

    def __init__(self, dataclass_types: Any, recipe: str | None = None, **kwargs: Any) -> None:
        super().__init__(dataclass_types, allow_abbrev=False, **kwargs)
        self.types: list[Any] = [*self.dataclass_types]
        self.recipe = recipe
        self.fields: dict[str, argparse.Action] = {}
        for action in self._actions:
            if action.dest != "help":
                self.fields.setdefault(action.dest, action)  # `report` has the flag --no_report too
        hints = {name: hint for model in self.types for name, hint in get_type_hints(model).items()}
        self.takes = {name: _kinds(hints.get(name, str)) for name in self.fields}

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message[:1].upper()}{message[1:]}; `{self.prog} --help` lists the options.")

    def parse_args_and_config(self, args: Iterable[str] | None = None) -> tuple[Any, ...]:  # type: ignore[override]
        """An instance of each dataclass. Prints a refusal in one sentence and exits with code 2, as argparse does."""
        argv = sys.argv[1:] if args is None else list(args)
        if {"-h", "--help"} & set(argv):
            self.print_help()
            self.exit()
        try:
            refuse_lone_process()
            sources = read_sources(argv, usual=self.recipe)
            sources.check_names(self.fields)
            return self.built(self.settings(sources))
        except CountdownSelfPlayError as error:
            self.exit(2, f"{self.prog}: error: {error}\n")

    def settings(self, sources: Sources) -> dict[str, Any]:
        """The settings of all sources, typed."""
        merged: dict[str, Any] = {}
        for _, file in sources.files:
            merged = over(merged, self.typed(file))
        for action in self._actions:
            action.default, action.required = argparse.SUPPRESS, False
        flags = vars(self.parse_args(sources.argv))
        merged = over(merged, flags)
        asked = sorted(COUNTDOWN & (flags.keys() | sources.written.keys()))  # those of a recipe are passed over
        if asked and (domain := merged.get("domain", "countdown")) != "countdown":
            raise ConfigError(
                f"`{asked[0]}` is Countdown's, and `domain` is '{domain}'; leave it out, or set domain_kwargs."
            )
        return merged if sources.recipe is None else {**merged, "recipe": sources.recipe}

    @property
    def training(self) -> Any:
        """The trainer's config among the dataclasses."""
        return next((one for one in self.types if issubclass(one, TrainingArguments)), self.types[0])

    def built(self, settings: Mapping[str, Any]) -> tuple[Any, ...]:
        """The dataclasses, each with its own part of the settings. The adapter's dropout is 0, not TRL's .05: the
        sampled and the trained policy would be two."""
        os.environ.update({key: str(value) for key, value in settings.get("env", {}).items()})
        try:
            found = {one: self._built(one, {"lora_dropout": 0.0, **settings}) for one in self.types}
        except CountdownSelfPlayError:
            raise
        except ValueError as error:  # TrainingArguments and TRL's configs check their own fields with it
            raise ConfigError(f"Transformers or TRL refuses these settings: {error}") from error
        training, model = (found.get(one) for one in (self.training, ModelConfig))
        if model is not None:
            refuse_unread(model, settings)
        if model is not None and isinstance(training, SelfPlaySettings):
            training.model_init_kwargs = model_arguments(model, training)
        return tuple(found.values())

    def _built(self, model: Any, settings: Mapping[str, Any]) -> Any:
        names = {one.name for one in fields(model) if one.init}
        if issubclass(model, SelfPlaySettings) and CountdownArguments in self.types:
            countdown = settings.get("domain", "countdown") == "countdown"
            settings = as_fields({"domain_kwargs": None, **settings} if countdown else settings)
        return model(**{name: value for name, value in settings.items() if name in names})

    def typed(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a YAML file as their fields take them; ConfigError where one does not."""
        return {name: value if name == "env" else self._value(name, value) for name, value in settings.items()}

    def _value(self, name: str, value: Any) -> Any:
        action, takes = self.fields[name], self.takes[name] - ({str} if self.fields[name].choices else set())
        listed = action.nargs in ("+", "*")
        if type(value) in takes and not (listed and isinstance(value, list)):
            return value
        one, several = _KINDS.get(converter(action), _KINDS["str"])
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


def _kinds(hint: Any) -> set[Any]:
    """The types of which a value in YAML is taken as it is."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return {get_origin(kind) or kind for kind in kinds} & {NoneType, bool, int, float, dict, list, str}


def _converted(action: argparse.Action, value: Any) -> Any:
    """A YAML value as the word that a user would write after the flag, converted; None if it cannot be."""
    kind = converter(action)
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


def converter(action: argparse.Action) -> str:
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


def refuse_unread(model: ModelConfig, named: Iterable[str]) -> None:
    """Options of the model that would be passed over."""
    if model.load_in_8bit or model.load_in_4bit:
        raise ConfigError(
            "`load_in_8bit` and `load_in_4bit` are not supported: the finished folder holds whole weights, which a "
            "quantized base would round; leave them unset."
        )
    adapter = sorted(name for name in named if name.startswith("lora_") or name in ("use_dora", "use_rslora"))
    if adapter and not model.use_peft:
        raise ConfigError(f"`{adapter[0]}` is read under --use_peft only; pass that too, or leave it unset.")
