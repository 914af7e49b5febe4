"""Named settings: YAML files that ship with the package, and which of two sources of settings wins."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ..errors import ConfigError
from ..registry import Registry, suggestion
from .joint import ROLES

_PLACES = (Path(__file__).parents[1] / "recipes", Path(__file__).parents[3] / "examples" / "recipes")

_OWN = ("sft", "ipo")
"""Commands with settings of their own: their recipes are called after them. All others hold those of `joint`."""


def recipes(command: str = "joint") -> Registry[Path]:
    """Recipe name ("tiny/default", "qwen2.5-0.5b/anchored_shaped_fixed") -> file, in an installed wheel or a
    checkout: those that `command` can read."""
    found: Registry[Path] = Registry("recipe")
    for place in _PLACES:
        for path in sorted(place.glob("*/*.yaml")):
            if (path.stem if path.stem in _OWN else "joint") == (command if command in _OWN else "joint"):
                found.setdefault(f"{path.parent.name}/{path.stem}", path)
    return found


def over(below: Mapping[str, Any], above: Mapping[str, Any], training: type) -> dict[str, Any]:
    """The settings of two sources, of which `above` wins: also over the roles' own fields of `below` whose plain field
    it sets. `--learning_rate` acts although the recipe has a prover_learning_rate."""
    fields = {f.name for f in dataclasses.fields(training)}
    hidden = {f"{role}_{name}" for role in ROLES for name in above if name in fields}
    return {**{name: value for name, value in below.items() if name not in hidden}, **above}


def recipe_fields(name: str, changes: Mapping[str, Any], training: type) -> dict[str, Any]:
    """Those settings of a recipe that are fields of `training`, under `changes`; its model and its data are left out.
    ConfigError for a change that is no field."""
    fields = [f.name for f in dataclasses.fields(training) if f.init]
    for change in changes:
        if change not in fields:
            raise ConfigError(f"`{change}` is not a field of {training.__name__}.{suggestion(change, fields)}")
    written = yaml.safe_load(recipes()[name].read_text(encoding="utf-8"))
    return over({field: value for field, value in written.items() if field in fields}, changes, training)
