"""The gates of the ladder for docs/headroom.md, from the figures of the run that the page tells of.

    countdown-selfplay headroom --recipe tiny/ladder --output_dir runs/headroom

Its headroom.json is docs/benchmarks/ladder/headroom/ladder.json.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from countdown_selfplay.lab.headroom.gates import Gate
from countdown_selfplay.lab.headroom.measure import gates_svg

FIGURES = Path(__file__).resolve().parents[1] / "benchmarks" / "ladder" / "headroom" / "ladder.json"


def headroom() -> str:
    """The picture that the command leaves beside its figures, with the panels of today."""
    gates = json.loads(FIGURES.read_text(encoding="utf-8"))["gates"]
    return gates_svg({"gates": [*map(_with_word, gates)]})


def _with_word(gate: dict[str, Any]) -> dict[str, Any]:
    """Files of earlier versions have no "word"."""
    return Gate(**{name: value for name, value in gate.items() if name != "word"}).to_dict()
