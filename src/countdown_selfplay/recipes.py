"""Named settings: YAML files that any trainer command takes with --recipe, shipped with the package."""

from __future__ import annotations

from pathlib import Path

from .registry import Registry

_PLACES = (Path(__file__).parent / "recipes", Path(__file__).parents[2] / "examples" / "recipes")


def recipes() -> Registry[Path]:
    """Recipe name ("tiny/default", "qwen2.5-0.5b/anchored_shaped_fixed") -> file, in an installed wheel or a
    checkout."""
    found: Registry[Path] = Registry("recipe")
    for place in _PLACES:
        for path in sorted(place.glob("*/*.yaml")):
            found.setdefault(f"{path.parent.name}/{path.stem}", path)
    return found
