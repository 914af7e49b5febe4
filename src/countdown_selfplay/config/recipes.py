"""Named settings: YAML files that ship with the package, each whole or as changes to another (`recipe:`), and which of
two sources of settings wins."""

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
"""Where recipes lie: in an installed wheel, and in a checkout."""

_OWN = {"sft": "sft", "ipo": "ipo", "cdg": "iterated"}
"""Commands with settings of their own, and how the names of their recipes begin (sft, sft_helping). All others hold
those of `joint`."""


def recipes(command: str = "joint") -> Registry[Path]:
    """Recipe name ("tiny/default", "qwen2.5-0.5b/anchored_shaped_fixed") -> file, in an installed wheel or a
    checkout: those that `command` can read."""
    found: Registry[Path] = Registry("recipe", listed_by="countdown-selfplay recipes")
    wanted = _OWN.get(command, "joint")
    for place in PLACES:
        for path in sorted(place.glob("*/*.yaml")):
            first = path.stem.partition("_")[0]
            if (first if first in _OWN.values() else "joint") == wanted:
                found.setdefault(f"{path.parent.name}/{path.stem}", path)
    return found


COUNTDOWN = frozenset(f.name for f in dataclasses.fields(CountdownArguments))
"""What a recipe, a config file and the command line say of Countdown by name: entries of `domain_kwargs`."""
GAME = frozenset(f.name for f in dataclasses.fields(Settings)) - {"samples_per_log"}
"""Fields that propose_and_solve alone reads."""


def spread(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` with Countdown's entries of `domain_kwargs` by their names; the contrary of `as_fields`."""
    held = json_object("domain_kwargs", settings.get("domain_kwargs"))
    own = {name: held.pop(name) for name in COUNTDOWN & held.keys()}
    if not own:
        return dict(settings)
    rest = {name: value for name, value in settings.items() if name != "domain_kwargs"}
    return {**own, **rest, **({"domain_kwargs": held} if held else {})}


def as_fields(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` as fields of JointSelfPlayConfig: Countdown's arguments in `domain_kwargs`."""
    found = {name: value for name, value in settings.items() if name not in COUNTDOWN}
    own = {name: value for name, value in settings.items() if name in COUNTDOWN}
    if own or "domain_kwargs" in found:
        found["domain_kwargs"] = json_object("domain_kwargs", found.get("domain_kwargs")) | own
    return found


def over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of two sources, of which `above` wins setting by setting, however each writes it: in `roles`, as a
    role's own field, or as the plain field for all roles. `--learning_rate` acts although the recipe has a
    prover_learning_rate."""
    below, above = spread(below), spread(above)
    for part, usual, own in (("domain", "countdown", COUNTDOWN), ("game", "propose_and_solve", GAME)):
        if above.get(part) not in (None, below.get(part, usual)):  # what is below are arguments of another one
            below = {name: value for name, value in below.items() if name not in own | {f"{part}_kwargs"}}
    mine, theirs = parsed_roles(above.get("roles")), parsed_roles(below.get("roles"))
    if not (theirs or mine or FLAT_FIELDS.keys() & below.keys()):
        return {**below, **above}

    def hidden(kind: str, setting: str) -> bool:
        return (setting in PLAIN and setting in above) or setting in mine.get(kind, {}) or f"{kind}_{setting}" in above

    found = {name: value for name, value in below.items() if not hidden(*FLAT_FIELDS.get(name, ("", "")))}
    roles = {kind: {s: v for s, v in settings.items() if not hidden(kind, s)} for kind, settings in theirs.items()}
    for kind, settings in mine.items():
        roles[kind] = roles.get(kind, {}) | settings
    return {**found, **above, **({"roles": roles} if roles else {})}


def chain(
    name: str, known: Mapping[str, Path], read: Callable[[Path], dict[str, Any]]
) -> list[tuple[Path, dict[str, Any]]]:
    """The files of a recipe and of those that it begins with (`recipe:`), each with its settings, its own first.
    `known`: by name; `read`: the settings of a file. ConfigError where the last begins with an earlier one."""
    if not isinstance(name, str):
        raise ConfigError(f"`recipe` ({name}) must be a text.")
    names: list[str] = []
    found: list[tuple[Path, dict[str, Any]]] = []
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
        found.append((known[names[-1]], settings))
    return found


def resolved(name: str, known: Mapping[str, Path], read: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """The settings of a recipe over those of the one that it begins with, and so on (`chain`)."""
    (_, settings), *below = chain(name, known, read)
    for _, base in below:
        settings = over(base, settings)
    return settings


def written(path: Path) -> dict[str, Any]:
    """The settings of a shipped recipe's file."""
    found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def recipe_settings(name: str, command: str = "joint") -> dict[str, Any]:
    """All settings of a recipe: of the trainer, its model and its data."""
    return resolved(name, recipes(command), written)


def refusal_of(name: str, known: Collection[str]) -> str:
    """The cure for a name that is no setting: the nearest one, or `roles` for a role's setting without a field."""
    kind, _, setting = name.partition("_")
    if kind in FLAT and setting in FIELDS:
        return f" Set it in `roles`: {{{kind}: {{{setting}: ...}}}}."
    if name in COUNTDOWN:
        return f" It is Countdown's; set it in `domain_kwargs`: {{{name}: ...}}."
    return suggestion(name, sorted(known))


def check_names(given: Iterable[str], training: type, known: Collection[str]) -> None:
    """ConfigError for a setting that is not known."""
    for name in given:
        if name not in known:
            raise ConfigError(f"`{name}` is not a field of {training.__name__}.{refusal_of(name, known)}")


def recipe_fields(name: str, changes: Mapping[str, Any], training: type) -> dict[str, Any]:
    """Those settings of a recipe that are fields of `training`, under `changes`; its model and its data are left out.
    ConfigError for a change that is no field."""
    fields = {f.name for f in dataclasses.fields(training) if f.init} | COUNTDOWN
    check_names(changes, training, fields)
    shipped = recipe_settings(name)
    return as_fields(over({field: value for field, value in shipped.items() if field in fields}, changes))
