"""Recipe, config file and flags of a trainer command, checked before torch loads."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..config.sources import Sources, flags_of, read_sources, underscored
from ..errors import ConfigError
from ..registry import ELSEWHERE
from .commands import TRAINERS, Trainer
from .help import options_of

HELP_FLAGS = ("-h", "--help", "--help_all")


def sources_of(command: str, argv: list[str]) -> Sources:
    """The sources of a command's settings, with the flags of which it allows one value."""
    how = TRAINERS[command]
    flags = flags_of([underscored(argument) for argument in argv])
    for name, value in how.forced.items():
        if flags.get(name, [value]) != [value]:
            raise ConfigError(
                f"`{name}` ({' '.join(flags[name])}) must be {value} here: {command} trains the prover alone; `joint` "
                "trains both."
            )
        argv = argv if name in flags else [*argv, f"--{name}", value]
    return read_sources(argv, how.kind, how.recipe, how.recipe_with_model)


def check_names(how: Trainer, asked: Sources, fields: Collection[str]) -> None:
    """ConfigError for a flag or a key of a file that is no field."""
    for flag in asked.flags:
        meant = ELSEWHERE.get(flag, flag)
        if flag not in fields and meant in how.elsewhere:
            raise ConfigError(
                f"Iterated training has no option '--{flag}'. Use {how.elsewhere[meant]}; for online training: "
                f"--training online --{meant}."
            )
    asked.check_names(fields)


def check_early(command: str, argv: list[str]) -> bool:
    """Check what can be checked before torch loads; whether a dry run is asked for. A name is left to options.py where
    other versions of TRL or Transformers are installed than those whose fields are known here."""
    how, asked = TRAINERS[command], sources_of(command, argv)
    if any(flag in argv for flag in HELP_FLAGS):
        return False
    known = options_of(command)
    if known is not None:
        check_names(how, asked, {one.name for one in known})
    planned: Any = False
    for _, source in asked.files:
        planned = source.get("dry_run", planned)
    said = (asked.flags["dry_run"] or ["true"])[0] if "dry_run" in asked.flags else planned
    return str(said).lower() in ("yes", "true", "t", "y", "1")  # as in Transformers, which refuses other words later
