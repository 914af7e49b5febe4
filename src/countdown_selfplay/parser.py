"""Command-line parser of scripts with a trainer: TRL's parser with recipes and one order of precedence."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields
from types import NoneType
from typing import Any, NoReturn

from trl import ModelConfig, TrlParser

from .config.fields import CountdownArguments
from .config.joint import JointSelfPlayConfig
from .config.recipes import COUNTDOWN, Sources, as_fields, over, read_sources
from .distributed.launch import refuse_lone_process
from .errors import ConfigError, CountdownSelfPlayError
from .options import hints_of, typed
from .policies.build import model_arguments
from .registry import suggestion

_FEW = 12
"""Largest number of choices that an error lists in full."""


class SelfPlayParser(TrlParser):
    """TRL's parser of dataclasses with recipes.

    `--config` takes a YAML file or the name of a recipe, `--recipe` a name. A recipe may extend another (`recipe:`).
    Flags override the file, which overrides the recipe. Within one source a role's field overrides the plain field,
    but not a plain field of a source of higher precedence. If CountdownArguments is among the dataclasses, its values
    are in `domain_kwargs` of the config too. Raises ConfigError for an unknown name or value.

    Args:
        dataclass_types: One or several dataclasses, each with its fields as flags.
        recipe: Recipe to use where neither a recipe, a config file nor a model is named.
    """

    def __init__(self, dataclass_types: Any, recipe: str | None = None, **kwargs: Any) -> None:
        super().__init__(dataclass_types, allow_abbrev=False, **kwargs)
        self.types: list[Any] = [*self.dataclass_types]
        self.recipe = recipe
        self.fields: dict[str, argparse.Action] = {}
        for action in self._actions:
            if action.dest != "help":
                self.fields.setdefault(action.dest, action)  # `report` has the flag --no_report too
        self.hints = {name: hint for model in self.types for name, hint in hints_of(model).items()}

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message[:1].upper()}{message[1:]}; `{self.prog} --help` lists the options.")

    def parse_args_and_config(self, args: Iterable[str] | None = None) -> tuple[Any, ...]:  # type: ignore[override]
        """Return an instance of each dataclass. Prints an invalid setting in one line and exits with code 2, as
        argparse does."""
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
        """Merge recipe, config file and flags (ascending precedence); convert each value to the type of its field."""
        merged: dict[str, Any] = {}
        for _, file in sources.files:
            merged = over(merged, self.typed(file))
        for action in self._actions:
            action.default, action.required = argparse.SUPPRESS, False
        flags = vars(self.parse_args(sources.argv))
        merged = over(merged, flags)
        countdown = sorted(COUNTDOWN & (flags.keys() | sources.written.keys()))  # those of a recipe are passed over
        if countdown and (domain := merged.get("domain", "countdown")) != "countdown":
            raise ConfigError(
                f"`{countdown[0]}` is Countdown's, and `domain` is '{domain}'; leave it out, or set domain_kwargs."
            )
        return merged if sources.recipe is None else {**merged, "recipe": sources.recipe}

    def built(self, settings: Mapping[str, Any]) -> tuple[Any, ...]:
        """Build an instance of each dataclass from the settings among its fields. The adapter's dropout defaults to 0
        and not to TRL's 0.05, which would make the trained policy differ from the sampled one."""
        os.environ.update({key: str(value) for key, value in settings.get("env", {}).items()})
        try:
            instances = {one: self._built(one, {"lora_dropout": 0.0, **settings}) for one in self.types}
        except CountdownSelfPlayError:
            raise
        except ValueError as error:  # TrainingArguments and TRL's configs check their own fields with it
            raise ConfigError(f"Transformers or TRL refuses these settings: {error}") from error
        training = next((one for one in instances.values() if isinstance(one, JointSelfPlayConfig)), None)
        model = instances.get(ModelConfig)
        if model is not None:
            refuse_unread(model, settings)
            if training is not None:
                training.model_init_kwargs = model_arguments(model, training)
        return tuple(instances.values())

    def _built(self, model: Any, settings: Mapping[str, Any]) -> Any:
        names = {one.name for one in fields(model) if one.init}
        if issubclass(model, JointSelfPlayConfig) and CountdownArguments in self.types:
            countdown = settings.get("domain", "countdown") == "countdown"
            settings = as_fields({"domain_kwargs": None, **settings} if countdown else settings)
        return model(**{name: value for name, value in settings.items() if name in names})

    def typed(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Convert the settings of a YAML file to the types of their fields. Raises ConfigError for a value of another
        type."""
        return {name: value if name == "env" else self._typed(name, value) for name, value in settings.items()}

    def _typed(self, name: str, value: Any) -> Any:
        choices, hint = self.fields[name].choices, self.hints[name]
        if hint in (str, str | None) and isinstance(value, int | float):  # run_name: 2026
            return value if isinstance(value, bool) else str(value)  # resume_from_checkpoint: true
        if choices is None or isinstance(value, list | NoneType):
            return typed(name, hint, value)
        listed = [str(choice) for choice in choices]
        chosen = "no" if value is False and "no" in listed else value  # YAML reads `no` as false
        if str(chosen) in listed:
            return chosen
        close = suggestion(str(chosen), listed)
        shown = ", ".join(listed) if len(listed) <= _FEW or not close else f"{len(listed)} values"
        raise ConfigError(f"`{name}` ({value}) must be one of {shown}.{close}")


def refuse_unread(model: ModelConfig, named: Iterable[str]) -> None:
    """Raise ConfigError for a quantized model, and for an adapter's option among `named` without use_peft."""
    if model.load_in_8bit or model.load_in_4bit:
        raise ConfigError(
            "`load_in_8bit` and `load_in_4bit` are not supported: the finished folder holds whole weights, which a "
            "quantized base would round; leave them unset."
        )
    adapter = sorted(name for name in named if name.startswith("lora_") or name in ("use_dora", "use_rslora"))
    if adapter and not model.use_peft:
        raise ConfigError(f"`{adapter[0]}` is read under --use_peft only; pass that too, or leave it unset.")
