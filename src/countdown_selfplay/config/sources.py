"""Read recipe, config file and flags without torch; parser.py converts their values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..data.yaml_file import read_settings
from ..errors import ConfigError
from ..registry import ELSEWHERE
from .recipes import chain, recipes, refusal_of


@dataclass
class Sources:
    """Settings that a command line gives, by source, unconverted."""

    argv: list[str]
    """The flags, with underscores in their names, without --config."""
    flags: dict[str, list[str]]
    """Name -> the words after it."""
    path: str | None = None
    """The file of --config."""
    written: dict[str, Any] = field(default_factory=dict)
    """The settings in that file."""
    recipe: str | None = None
    """The name of the recipe that is played."""
    shipped: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Its file and those of the recipes that it begins with, the last of them first, each with its settings."""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """Name of an option that the command lacks -> the option to use instead."""

    @property
    def files(self) -> list[tuple[str | None, dict[str, Any]]]:
        """All files with their settings, in order of precedence, lowest first."""
        return [*self.shipped, (self.path, self.written)]

    def check_names(self, fields: Collection[str]) -> None:
        """Raise ConfigError that suggests the nearest name for a flag or a key of a file that is no field."""
        known = {f"{prefix}{name}" for name in fields for prefix in ("", "no_")}
        for flag in self.flags:
            if flag not in known:
                cure = self.elsewhere.get(ELSEWHERE.get(flag, flag)) or _cure(flag, fields).replace(
                    "mean '", "mean '--", 1
                )
                raise ConfigError(f"Unknown option '--{flag}'.{cure}")
        for path, settings in self.files:
            for key in settings:
                if key not in fields and key != "env":
                    raise ConfigError(f"{path}: unknown field '{key}'.{_cure(key, fields)}")


def _cure(name: str, fields: Collection[str]) -> str:
    """Return the hint for an unknown name, or where all names are listed."""
    return refusal_of(name, fields) or " `--help-all` lists them."


def read_sources(
    argv: Sequence[str],
    command: str = "joint",
    usual: str | None = None,
    with_model: bool = False,
    elsewhere: Mapping[str, str] | None = None,
) -> Sources:
    """Read the sources of a command's settings. The recipe is `usual` where the arguments name neither recipe nor
    config file nor (unless `with_model`) model. ConfigError or UnknownNameError for a file or recipe that cannot be
    read, and for recipes that extend each other."""
    argv = [underscored(argument) for argument in argv]
    flags = flags_of(argv)
    sources = Sources(argv, flags, elsewhere=elsewhere or {})
    known = recipes(command)
    if "config" in flags:
        if not flags["config"]:
            raise ConfigError("`--config` needs a YAML file, or the name of a recipe.")
        named, sources.argv = flags.pop("config")[0], without(argv, "--config")
        if named in known and "recipe" not in flags and not Path(named).is_file():
            flags["recipe"] = [named]
        else:
            sources.path, sources.written = named, read_settings(named, list(known))
    if flags.get("recipe") == []:
        raise ConfigError("`--recipe` needs the name of a recipe, such as tiny/default.")
    names, sources.argv = flags.pop("recipe", None), without(sources.argv, "--recipe")
    sources.recipe = names[0] if names else sources.written.pop("recipe", None)
    if sources.recipe is None and sources.path is None and (with_model or "model_name_or_path" not in flags):
        sources.recipe = usual
    if sources.recipe is not None:
        read = chain(sources.recipe, known, lambda path: read_settings(str(path), list(known)))
        sources.shipped = [(str(path), settings) for path, settings in reversed(read)]
    return sources


def flags_of(argv: list[str]) -> dict[str, list[str]]:
    """Map each flag to the words after it; the last wins of a flag given twice."""
    flags: dict[str, list[str]] = {}
    words: list[str] = []
    for argument in argv:
        if argument.startswith("--"):
            name, equals, value = argument[2:].partition("=")
            words = flags[name] = [value] if equals else []
        else:
            words.append(argument)
    return flags


def without(argv: list[str], flag: str) -> list[str]:
    """Return `argv` without the flag and its value, wherever it occurs."""
    kept, skip = [], False
    for argument in argv:
        name, equals, _ = argument.partition("=")
        if name != flag and (not skip or argument.startswith("--")):
            kept.append(argument)
        skip = name == flag and not equals
    return kept


def underscored(argument: str) -> str:
    """Return `--n-problems=5` as `--n_problems=5`; arguments that are no option are unchanged."""
    name, equals, value = argument.partition("=")
    return name.replace("-", "_").replace("__", "--", 1) + equals + value if name.startswith("--") else argument
