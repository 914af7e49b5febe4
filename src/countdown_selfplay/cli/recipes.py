"""Named settings: YAML files that the trainer commands take with --recipe, shipped with the package."""

from __future__ import annotations

from pathlib import Path

from ..registry import Registry

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
