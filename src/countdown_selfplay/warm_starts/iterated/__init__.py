"""Iterated self-play: play, choose samples, retrain every role from its initial model (Wang et al.). Names are
loaded on first use, so that the log of an iterated run is read without torch."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .driver import IteratedSelfPlay
    from .settings import IteratedSettings, RoleTraining

_LAZY = {"IteratedSelfPlay": "driver", "IteratedSettings": "settings", "RoleTraining": "settings"}
__all__ = ["IteratedSelfPlay", "IteratedSettings", "RoleTraining"]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
