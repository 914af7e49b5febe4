"""countdown-selfplay: language models that write their own curriculum, as a plug-in library on TRL.

Importing the package is cheap: names that need torch or TRL are loaded on first use.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_LAZY = {
    "JointConjecturerProverTrainer": "countdown_selfplay.training.trainer",
    "JointSelfPlayConfig": "countdown_selfplay.config",
    "summary": "countdown_selfplay.evaluation.findings",
}

_BESIDE = {"report": "lab.report"}

if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
    # Threads of OpenMP spin while they wait, and on busy cores they wait for each other: with a load of 11 on two
    # cores a step took 77 s so, and 6 with PASSIVE. Asleep at once, they wake too late for small models: 1,000 spins
    # took 0.71 of the time on two quiet cores, 1.09 with a load of 5 (tiny/ladder). No result depends on it.
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

__all__ = ["JointConjecturerProverTrainer", "JointSelfPlayConfig", "__version__", "report", "summary"]

if TYPE_CHECKING:
    from .config import JointSelfPlayConfig
    from .evaluation.findings import summary
    from .lab.report import report
    from .training.trainer import JointConjecturerProverTrainer


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if name in _BESIDE:
        from .packages import attribute_of

        return attribute_of(f"{_BESIDE[name]}:{name}", f"countdown_selfplay.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
