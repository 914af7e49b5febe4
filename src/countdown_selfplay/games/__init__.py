"""One round of self-play, read top to bottom. A game sees a RoundContext, never the Trainer.

What needs torch is loaded on first use, for a report reads `games.metrics` without it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_LAZY = {
    "ProposeAndSolve": "propose_and_solve",
    **dict.fromkeys(("RoleBatch", "Rollout", "RoundContext", "RoundResult"), "base"),
}

__all__ = ["ProposeAndSolve", "RoleBatch", "Rollout", "RoundContext", "RoundResult"]

if TYPE_CHECKING:
    from .base import RoleBatch, Rollout, RoundContext, RoundResult
    from .propose_and_solve import ProposeAndSolve


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
