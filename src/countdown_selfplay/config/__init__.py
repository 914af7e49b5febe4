"""JointSelfPlayConfig: TRL's GRPOConfig plus the settings of roles, game and collapse guard. Names are imported on
first use, so that recipes and roles can be read without TRL."""

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
