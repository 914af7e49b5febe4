"""Warm starts on TRL's trainers: supervised fine-tuning on demonstrations, and IPO on pairs of scored samples.

Allen and Ståblein and Task Difficulty and Diversity start self-play from the checkpoint of such a pipeline (SFT, then
IPO or RLOO). See docs/warm_starts.md."""

from .filters import ScoredSample, make_preference_pairs
from .iterated import IteratedSelfPlay, IteratedSettings
from .starts import Job, cdg_start, fine_tune

__all__ = [
    "IteratedSelfPlay", "IteratedSettings", "Job", "ScoredSample", "cdg_start", "fine_tune", "make_preference_pairs",
]  # fmt: skip
