"""Warm starts on TRL's trainers: supervised fine-tuning on demonstrations, and IPO on pairs of scored samples.

Allen and Ståblein and Task Difficulty and Diversity start self-play from the checkpoint of such a pipeline (SFT, then
IPO or RLOO). See docs/warm_starts.md."""

from ..evaluation.sampling import demonstration_ids, pair_ids
from .configs import IPOArguments, IPOSettings, SFTArguments, SFTSettings, WarmStartArguments
from .demonstrations import generated_rows
from .filters import Kept, PreferencePair, ScoredSample, make_preference_pairs
from .iterated import IteratedSelfPlay, IteratedSettings
from .readers import clean_demonstrations
from .starts import Job, cdg_start, fine_tune
from .training import TokenizedDPOTrainer

__all__ = [
    "IPOArguments", "IPOSettings", "IteratedSelfPlay", "IteratedSettings", "Job", "Kept", "PreferencePair",
    "SFTArguments", "SFTSettings", "ScoredSample", "TokenizedDPOTrainer", "WarmStartArguments", "cdg_start",
    "clean_demonstrations", "demonstration_ids", "fine_tune", "generated_rows", "make_preference_pairs", "pair_ids",
]  # fmt: skip
