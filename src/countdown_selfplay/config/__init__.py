"""JointSelfPlayConfig: TRL's GRPOConfig plus the settings of its roles, their game and the collapse guard. The names
are loaded on first use: recipes and roles are read before TRL is, which takes seconds."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .joint import JointSelfPlayConfig
    from .roles import Role

_LAZY = {"JointSelfPlayConfig": "joint", "Role": "roles"}

__all__ = ["JointSelfPlayConfig", "Role"]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
