"""Checks of a trainer command's recipe, config file and flags before torch loads."""

from __future__ import annotations

from typing import Any

from ..config.recipes import Sources, flags_of, read_sources, underscored
from ..errors import ConfigError
from .commands import TRAINERS
from .help import options_of

HELP_FLAGS = ("-h", "--help", "--help_all")


def sources_of(command: str, argv: list[str]) -> Sources:
    """Return the Sources of a command, with the flags that it fixes. Raises ConfigError for other values of these."""
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


def check_early(command: str, argv: list[str]) -> bool:
    """Check the sources of the settings before torch loads, and return whether a dry run is requested. Names are
    checked here only if options.json describes the installed TRL and Transformers."""
    sources = sources_of(command, argv)
    if any(flag in argv for flag in HELP_FLAGS):
        return False
    known = options_of(command)
    if known is not None:
        sources.check_names({one.name for one in known}, TRAINERS[command].elsewhere)
    planned: Any = False
    for _, source in sources.files:
        planned = source.get("dry_run", planned)
    value = (sources.flags["dry_run"] or ["true"])[0] if "dry_run" in sources.flags else planned
    return str(value).lower() in ("yes", "true", "t", "y", "1")  # as in Transformers, which refuses other words later
