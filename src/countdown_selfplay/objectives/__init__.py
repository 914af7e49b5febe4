"""Objectives by name. A plug-in is one small file here and one line in OBJECTIVES. Importing this module loads no
torch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ..registry import Registry

if TYPE_CHECKING:
    from .base import Objective

# name -> "module:class"; a user's own class can be put here as it is: OBJECTIVES["mine"] = MyObjective
OBJECTIVES: Registry[str | type] = Registry(
    "objective",
    {
        "rloo": "countdown_selfplay.objectives.rloo:RLOO",
        "reinforce": "countdown_selfplay.objectives.reinforce:Reinforce",
    },
)


def make_objective(name: str, low: float = 0.5, high: float = 2.0) -> Objective:
    """The objective called `name`, its importance weight clamped to [low, high]."""
    entry = OBJECTIVES[name]
    if isinstance(entry, str):
        module, _, cls = entry.partition(":")
        entry = getattr(import_module(module), cls)
    return entry(low=low, high=high)


__all__ = ["OBJECTIVES", "make_objective"]
