"""What runs start from: supervised fine-tuning on demonstrations and IPO on pairs of scored samples, on TRL's
trainers; iterated play; data sets, hard targets, and folders of pretrained models.

Allen and Ståblein and Task Difficulty and Diversity start self-play from the checkpoint of such a pipeline (SFT, then
IPO or RLOO). See docs/warm_starts.md."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .filters import ScoredSample, make_preference_pairs
    from .iterated import IteratedSelfPlay, IteratedSettings
    from .starts import Job, cdg_start, fine_tune

_LAZY = {
    **dict.fromkeys(("ScoredSample", "make_preference_pairs"), "filters"),
    **dict.fromkeys(("IteratedSelfPlay", "IteratedSettings"), "iterated"),
    **dict.fromkeys(("Job", "cdg_start", "fine_tune"), "starts"),
}
__all__ = [
    "IteratedSelfPlay", "IteratedSettings", "Job", "ScoredSample", "cdg_start", "fine_tune", "make_preference_pairs",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
