"""Recipe, config file and flags of a trainer command, read before torch loads; options.py types their values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..config import flat
from ..config.recipes import chain, recipes
from ..data.yaml_file import read_settings
from ..errors import ConfigError
from ..registry import ELSEWHERE, suggestion
from .commands import TRAINERS, Trainer
from .help import options_of
from .plain import underscored

HELP_FLAGS = ("-h", "--help", "--help_all")


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


def read_sources(command: str, argv: list[str]) -> Sources:
    """The sources of the settings of `command`. ConfigError or UnknownNameError for a file or a recipe that cannot be
    read, and for recipes that begin with each other."""
    how = TRAINERS[command]
    argv = [underscored(argument) for argument in argv]
    flags = flags_of(argv)
    for name, value in how.forced.items():
        if flags.get(name, [value]) != [value]:
            raise ConfigError(
                f"`{name}` ({' '.join(flags[name])}) must be {value} here: {command} trains the prover alone; `joint` "
                "trains both."
            )
        if name not in flags:
            argv, flags[name] = [*argv, f"--{name}", value], [value]
    found = Sources(argv, flags)
    known = recipes(how.kind)
    if "config" in flags:
        if not flags["config"]:
            raise ConfigError("`--config` needs a YAML file.")
        found.path, found.argv = flags.pop("config")[0], without(argv, "--config")
        found.written = read_settings(found.path, list(known))
    found.recipe = flags["recipe"][0] if flags.get("recipe") else found.written.get("recipe")
    if found.recipe is None and found.path is None and (how.recipe_with_model or "model_name_or_path" not in flags):
        found.recipe = how.recipe
    if found.recipe is not None:
        if not isinstance(found.recipe, str):
            raise ConfigError(f"`recipe` ({found.recipe}) must be a text.")
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
        if name != flag and not skip:
            kept.append(argument)
        skip = name == flag and not equals
    return kept


def check_names(how: Trainer, asked: Sources, fields: Collection[str]) -> None:
    """ConfigError that suggests the nearest name for a flag or a key of a file that is no field."""
    known = {f"--{prefix}{name}" for name in fields for prefix in ("", "no_")}
    for flag in (f"--{name}" for name in asked.flags):
        meant = ELSEWHERE.get(flag[2:], flag[2:])
        if flag not in known and meant in how.elsewhere:
            raise ConfigError(
                f"Iterated training has no option '{flag}'. Use {how.elsewhere[meant]}; for online training: "
                f"--training online --{meant}."
            )
        if flag not in known:
            raise ConfigError(
                f"Unknown option '{flag}'.{_nearest(flag[2:], fields).replace(chr(39), chr(39) + '--', 1)}"
            )
    for path, settings in [*asked.shipped, (asked.path, asked.written)]:
        for key in settings:
            if key not in fields and key != "env":
                raise ConfigError(f"{path}: unknown field '{key}'.{_nearest(key, fields)}")


def flat_names(how: Trainer) -> Mapping[str, Any]:
    """Options that are no fields, since a mapping of the config holds their settings (`operands`: domain_kwargs). Name
    -> section, type, default and help; the constructor of the config puts the values there."""
    return flat.NAMES if how.kind == "joint" else {}


def _nearest(name: str, known: Collection[str]) -> str:
    """ " Did you mean 'x'?", or where all are listed; some 350 fields in a sentence would help nobody."""
    return suggestion(name, sorted(known)) or " `--help-all` lists them."


def check_early(command: str, argv: list[str]) -> bool:
    """Check what can be checked before torch loads; whether a dry run is asked for. A name is left to options.py where
    other versions of TRL or Transformers are installed than those whose fields are known here."""
    how, asked = TRAINERS[command], read_sources(command, argv)
    if any(flag in argv for flag in HELP_FLAGS):
        return False
    known = options_of(command)
    if known is not None:
        check_names(how, asked, {one.name for one in known})
    planned: Any = False
    for source in [*(settings for _, settings in asked.shipped), asked.written]:
        planned = source.get("dry_run", planned)
    said = (asked.flags["dry_run"] or ["true"])[0] if "dry_run" in asked.flags else planned
    return str(said).lower() in ("yes", "true", "t", "y", "1")  # as in Transformers, which refuses other words later
