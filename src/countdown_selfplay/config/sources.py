"""Sources of a command's settings: recipe, config file and flags, read without torch; parser.py converts values."""

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
    """Unconverted settings of a command line, by source."""

    argv: list[str]
    """Arguments, with underscores in the names of flags, without --config and --recipe."""
    flags: dict[str, list[str]]
    """Words after each flag, by the flag's name."""
    path: str | None = None
    """Path of the file that --config names."""
    written: dict[str, Any] = field(default_factory=dict)
    """Settings in the file of --config."""
    recipe: str | None = None
    """Name of the recipe that the run uses."""
    shipped: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Files of the recipe and of those that it extends, the recipe itself last, each with its settings."""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """Map of options that only other commands have to a hint at this command's option."""

    @property
    def files(self) -> list[tuple[str | None, dict[str, Any]]]:
        """Files with their settings, in ascending order of precedence."""
        return [*self.shipped, (self.path, self.written)]

    def check_names(self, fields: Collection[str]) -> None:
        """Raise ConfigError, which suggests the nearest name, for a flag or a key of a file that is not a field."""
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
    """Return the hint for an unknown name, or the option that lists all names."""
    return refusal_of(name, fields) or " `--help-all` lists them."


def read_sources(
    argv: Sequence[str],
    command: str = "joint",
    usual: str | None = None,
    with_model: bool = False,
    elsewhere: Mapping[str, str] | None = None,
) -> Sources:
    """Read the sources of a command's settings. The recipe is `usual` where the arguments name neither recipe nor
    config file nor (unless `with_model`) model. Raises ConfigError or UnknownNameError for a file or recipe that
    cannot be read, and for circular recipes."""
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
    """Map each flag to the words after it; the last occurrence of a repeated flag wins."""
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
    """Return an option with underscores in its name: `--n_problems=5` for `--n-problems=5`. Others are unchanged."""
    name, equals, value = argument.partition("=")
    return name.replace("-", "_").replace("__", "--", 1) + equals + value if name.startswith("--") else argument
