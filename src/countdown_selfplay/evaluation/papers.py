"""The papers by name, for texts that users read: the "seed 001" of the source reads as a random seed to everyone
else."""

from __future__ import annotations

import re

PAPERS = {
    "000": "Multimodal LLM Self-Play",
    "001": "Allen and Ståblein",
    "002": "Wang et al.",
    "003": "SGS",
    "004": "Task Difficulty and Diversity",
}


def by_name(text: str) -> str:
    """`text` with the papers by name."""
    return re.sub(r"\b[Ss]eed (00[0-4])\b", lambda found: PAPERS[found[1]], text)
