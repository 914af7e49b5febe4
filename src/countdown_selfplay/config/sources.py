"""Recipe, config file and flags, read before torch loads; parser.py types their values."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..data.yaml_file import read_settings
from ..errors import ConfigError
from .recipes import chain, recipes, refusal_of


@dataclass
class Sources:
    """What a command line of a trainer command asks for, each source with its own settings, untyped."""

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

    @property
    def files(self) -> list[tuple[str | None, dict[str, Any]]]:
        """All files with their settings, the weakest first."""
        return [*self.shipped, (self.path, self.written)]

    def check_names(self, fields: Collection[str]) -> None:
        """ConfigError that suggests the nearest name for a flag or a key of a file that is no field."""
        known = {f"{prefix}{name}" for name in fields for prefix in ("", "no_")}
        for flag in self.flags:
            if flag not in known:
                cure = _cure(flag, fields).replace("mean '", "mean '--", 1)
                raise ConfigError(f"Unknown option '--{flag}'.{cure}")
        for path, settings in self.files:
            for key in settings:
                if key not in fields and key != "env":
                    raise ConfigError(f"{path}: unknown field '{key}'.{_cure(key, fields)}")


def _cure(name: str, fields: Collection[str]) -> str:
    """What to write instead, or where all are listed; some 350 fields in a sentence would help nobody."""
    return refusal_of(name, fields) or " `--help-all` lists them."


def read_sources(
    argv: Sequence[str], command: str = "joint", usual: str | None = None, with_model: bool = False
) -> Sources:
    """The sources of the settings of a command, whose recipe is `usual` where the arguments name no recipe, no config
    file and (unless `with_model`) no model. ConfigError or UnknownNameError for a file or a recipe that cannot be
    read, and for recipes that begin with each other."""
    argv = [underscored(argument) for argument in argv]
    flags = flags_of(argv)
    found = Sources(argv, flags)
    known = recipes(command)
    if "config" in flags:
        if not flags["config"]:
            raise ConfigError("`--config` needs a YAML file, or the name of a recipe.")
        named, found.argv = flags.pop("config")[0], without(argv, "--config")
        if named in known and "recipe" not in flags and not Path(named).is_file():
            flags["recipe"] = [named]
        else:
            found.path, found.written = named, read_settings(named, list(known))
    if flags.get("recipe") == []:
        raise ConfigError("`--recipe` needs the name of a recipe, such as tiny/default.")
    asked, found.argv = flags.pop("recipe", None), without(found.argv, "--recipe")
    found.recipe = asked[0] if asked else found.written.pop("recipe", None)
    if found.recipe is None and found.path is None and (with_model or "model_name_or_path" not in flags):
        found.recipe = usual
    if found.recipe is not None:
        read = chain(found.recipe, known, lambda path: read_settings(str(path), list(known)))
        found.shipped = [(str(path), settings) for path, settings in reversed(read)]
    return found


def flags_of(argv: list[str]) -> dict[str, list[str]]:
    """Flag -> the words after it; of a flag that is given twice those of the last."""
    found: dict[str, list[str]] = {}
    words: list[str] = []
    for argument in argv:
        if argument.startswith("--"):
            name, equals, value = argument[2:].partition("=")
            words = found[name] = [value] if equals else []
        else:
            words.append(argument)
    return found


def without(argv: list[str], flag: str) -> list[str]:
    """`argv` without the flag and its value, each time that it is given."""
    kept, skip = [], False
    for argument in argv:
        name, equals, _ = argument.partition("=")
        if name != flag and (not skip or argument.startswith("--")):
            kept.append(argument)
        skip = name == flag and not equals
    return kept


def underscored(argument: str) -> str:
    """`--n-problems=5` as `--n_problems=5`; what is not an option stays as it is."""
    name, equals, value = argument.partition("=")
    return name.replace("-", "_").replace("__", "--", 1) + equals + value if name.startswith("--") else argument
