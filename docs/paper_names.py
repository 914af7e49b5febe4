"""The papers' short names, for pages that are made from the source, where they are called seed 000 to 004."""

from __future__ import annotations

import re

NAMES = {
    "000": "*Multimodal LLM Self-Play*",
    "001": "Allen and Ståblein",
    "002": "Wang et al.",
    "003": "SGS",
    "004": "*Task Difficulty and Diversity*",
}


def by_name(text: str) -> str:
    """`text` with the papers by name: "seed 001" reads as a random seed to everyone else."""
    return re.sub(r"\b[Ss]eed (00[0-4])\b", lambda found: NAMES[found[1]], text)
