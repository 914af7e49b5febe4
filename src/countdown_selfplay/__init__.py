"""countdown-selfplay: language models that write their own curriculum, as a plug-in library on TRL.

Importing the package is cheap: names that need torch or TRL are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_LAZY = {
    "JointConjecturerProverTrainer": "countdown_selfplay.training.trainer",
    "JointSelfPlayConfig": "countdown_selfplay.config",
}

__all__ = ["JointConjecturerProverTrainer", "JointSelfPlayConfig", "__version__"]

if TYPE_CHECKING:
    from .config import JointSelfPlayConfig
    from .training.trainer import JointConjecturerProverTrainer


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
