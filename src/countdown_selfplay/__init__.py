"""countdown-selfplay: language models that write their own curriculum, as a plug-in library on TRL.

Importing the package is cheap: names that need torch or TRL are loaded on first use.
"""

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from .packages import CALLED, absent_names, attribute_of

__version__ = "0.1.0"

_LAZY = {
    "CountdownArguments": "countdown_selfplay.config.fields",
    "DataArguments": "countdown_selfplay.config.script",
    "JointConjecturerProverTrainer": "countdown_selfplay.training.trainer",
    "JointSelfPlayConfig": "countdown_selfplay.config",
    "SelfPlayParser": "countdown_selfplay.parser",
    "data_sets": "countdown_selfplay.data.files",
    "summary": "countdown_selfplay.evaluation.findings",
}

if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
    # Waiting OpenMP threads spin, and on busy cores keep others from running: with a load of 11 on two cores a step
    # took 77 s, with PASSIVE 6 s. Threads that sleep at once wake too late for small models: with 1,000 spins a step
    # took 0.71 of the time on two quiet cores, 1.09 with a load of 5 (tiny/ladder). No result depends on it.
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")

__all__ = [
    "CountdownArguments",
    "DataArguments",
    "JointConjecturerProverTrainer",
    "JointSelfPlayConfig",
    "SelfPlayParser",
    "__version__",
    "data_sets",
    "report",
    "summary",
]
__all__[:] = [name for name in __all__ if name not in absent_names(CALLED)]

if TYPE_CHECKING:
    from .config import JointSelfPlayConfig
    from .config.fields import CountdownArguments
    from .config.script import DataArguments
    from .data.files import data_sets
    from .evaluation.findings import summary
    from .lab.report import report
    from .parser import SelfPlayParser
    from .training.trainer import JointConjecturerProverTrainer


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if name == "report":
        return attribute_of(CALLED[name], "countdown_selfplay.report")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
