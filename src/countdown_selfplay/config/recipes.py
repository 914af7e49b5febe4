"""Recipes: YAML files that ship with the package, some as changes to another (`recipe:`), and the merge of two sources
of settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from ..errors import ConfigError
from ..games.settings import Settings
from ..options import json_object
from ..registry import Registry, suggestion
from .countdown_fields import CountdownArguments
from .roles import FIELDS, FLAT, FLAT_FIELDS, PLAIN, parsed_roles

PLACES = (Path(__file__).parents[1] / "recipes", Path(__file__).parents[3] / "examples" / "recipes")
"""Folders of recipes: in an installed wheel, and in a checkout."""

_OWN = {"sft": "sft", "ipo": "ipo", "cdg": "iterated"}
"""Map of each command whose settings are not those of `joint` to the first word of its recipes' names (sft,
sft_helping). All other recipes hold settings of `joint`."""


def recipes(command: str = "joint") -> Registry[Path]:
    """Return the files of the recipes that `command` reads, by name ("tiny/default",
    "qwen2.5-0.5b/anchored_shaped_fixed"), from the wheel or the checkout."""
    files: Registry[Path] = Registry("recipe", listed_by="countdown-selfplay recipes")
    wanted = _OWN.get(command, "joint")
    for place in PLACES:
        for path in sorted(place.glob("*/*.yaml")):
            first = path.stem.partition("_")[0]
            if (first if first in _OWN.values() else "joint") == wanted:
                files.setdefault(f"{path.parent.name}/{path.stem}", path)
    return files


COUNTDOWN = frozenset(f.name for f in dataclasses.fields(CountdownArguments))
"""Arguments of Countdown, which a recipe, a file or the command line gives directly instead of in `domain_kwargs`."""
GAME = frozenset(f.name for f in dataclasses.fields(Settings)) - {"samples_per_log"}
"""Fields that only the game propose_and_solve reads."""


def spread(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return `settings` with Countdown's entries of `domain_kwargs` at the top level; the inverse of `as_fields`."""
    held = json_object("domain_kwargs", settings.get("domain_kwargs"))
    countdown = {name: held.pop(name) for name in COUNTDOWN & held.keys()}
    if not countdown:
        return dict(settings)
    rest = {name: value for name, value in settings.items() if name != "domain_kwargs"}
    return {**countdown, **rest, **({"domain_kwargs": held} if held else {})}


def as_fields(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return `settings` as fields of JointSelfPlayConfig, with Countdown's arguments in `domain_kwargs`."""
    fields = {name: value for name, value in settings.items() if name not in COUNTDOWN}
    countdown = {name: value for name, value in settings.items() if name in COUNTDOWN}
    if countdown or "domain_kwargs" in fields:
        fields["domain_kwargs"] = json_object("domain_kwargs", fields.get("domain_kwargs")) | countdown
    return fields


def over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two sources of settings; `above` wins setting by setting, whether written in `roles`, as a role's field or
    as the plain field of all roles: `--learning_rate` also replaces a recipe's prover_learning_rate."""
    below, above = spread(below), spread(above)
    for part, usual, names in (("domain", "countdown", COUNTDOWN), ("game", "propose_and_solve", GAME)):
        if above.get(part) not in (None, below.get(part, usual)):  # what is below are arguments of another one
            below = {name: value for name, value in below.items() if name not in names | {f"{part}_kwargs"}}
    mine, theirs = parsed_roles(above.get("roles")), parsed_roles(below.get("roles"))
    if not (theirs or mine or FLAT_FIELDS.keys() & below.keys()):
        return {**below, **above}

    def hidden(kind: str, setting: str) -> bool:
        return (setting in PLAIN and setting in above) or setting in mine.get(kind, {}) or f"{kind}_{setting}" in above

    kept = {name: value for name, value in below.items() if not hidden(*FLAT_FIELDS.get(name, ("", "")))}
    roles = {kind: {s: v for s, v in settings.items() if not hidden(kind, s)} for kind, settings in theirs.items()}
    for kind, settings in mine.items():
        roles[kind] = roles.get(kind, {}) | settings
    return {**kept, **above, **({"roles": roles} if roles else {})}


def chain(
    name: str, known: Mapping[str, Path], read: Callable[[Path], dict[str, Any]]
) -> list[tuple[Path, dict[str, Any]]]:
    """Return the files of a recipe and of those that it extends (`recipe:`), each with its settings, the recipe first.
    `known`: files by name; `read`: reads the settings of a file. Raises ConfigError for a circular extension."""
    if not isinstance(name, str):
        raise ConfigError(f"`recipe` ({name}) must be a text.")
    names: list[str] = []
    files: list[tuple[Path, dict[str, Any]]] = []
    base: str | None = name
    while base is not None:
        if base in names:
            raise ConfigError(
                f"{known[names[-1]]}: `recipe` ({base}) closes a circle, {' -> '.join([*names, base])}: the last one "
                "must hold all its settings itself."
            )
        names.append(base)
        settings = read(known[base])
        base = settings.pop("recipe", None)
        files.append((known[names[-1]], settings))
    return files


def resolved(name: str, known: Mapping[str, Path], read: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """Merge the settings of a recipe with those of the recipes that it extends (`chain`)."""
    (_, settings), *below = chain(name, known, read)
    for _, base in below:
        settings = over(base, settings)
    return settings


def written(path: Path) -> dict[str, Any]:
    """Read the settings in the file of a shipped recipe."""
    settings: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return settings


def recipe_settings(name: str, command: str = "joint") -> dict[str, Any]:
    """Return all settings of a recipe: of the trainer, its model and its data."""
    return resolved(name, recipes(command), written)


def refusal_of(name: str, known: Collection[str]) -> str:
    """Return a hint for an unknown setting: `roles` or `domain_kwargs` if it belongs there, else the nearest name."""
    kind, _, setting = name.partition("_")
    if kind in FLAT and setting in FIELDS:
        return f" Set it in `roles`: {{{kind}: {{{setting}: ...}}}}."
    if name in COUNTDOWN:
        return f" It is Countdown's; set it in `domain_kwargs`: {{{name}: ...}}."
    return suggestion(name, sorted(known))


def check_names(given: Iterable[str], training: type, known: Collection[str]) -> None:
    """Raise ConfigError for the first of the settings `given` that is not in `known`, the fields of `training`."""
    for name in given:
        if name not in known:
            raise ConfigError(f"`{name}` is not a field of {training.__name__}.{refusal_of(name, known)}")


def recipe_fields(name: str, changes: Mapping[str, Any], training: type) -> dict[str, Any]:
    """Return the settings of a recipe that are fields of `training`; `changes` take precedence. Raises ConfigError for
    a change that is not a field."""
    fields = {f.name for f in dataclasses.fields(training) if f.init} | COUNTDOWN
    check_names(changes, training, fields)
    shipped = recipe_settings(name)
    return as_fields(over({field: value for field, value in shipped.items() if field in fields}, changes))
