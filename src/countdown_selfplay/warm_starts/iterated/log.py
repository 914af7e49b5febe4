"""What the folder of an iterated run holds of its iterations, as a report reads it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...data.jsonl import parquet_rows
from ...data.run_files import numbered_folders
from ...evaluation.load import DAMAGED
from ...games.metrics import OF_RIGHT, OF_WRONG
from ...statistics.bootstrap import ratio_interval

SHARES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "prover/correct_rate": (("right",), ("right", "wrong")),
    "prover/success_rate": (("corrected", "resisted", "kept"), (*OF_WRONG, *OF_RIGHT)),
    "prover/corrected_rate": (("corrected",), OF_WRONG),
    "prover/resisted_rate": (("resisted",), OF_RIGHT),
    "prover/kept_rate": (("kept",), OF_RIGHT),
    "prover/misled_rate": (("misled",), OF_RIGHT),
    "helpful/win_rate": (("corrected",), OF_WRONG),
    "misleading/win_rate": (("misled",), OF_RIGHT),
    "helpful/read_rate": (("shown",), ("shown", "unreadable")),
    "misleading/read_rate": (("shown",), ("shown", "unreadable")),
}
"""Map of metrics to (labels in the numerator, labels in the denominator), as in the game's log."""


def iterations_of(folder: Path) -> list[dict[str, Any]]:
    """Return a dict per iteration with samples: its number, and the defined metrics of SHARES as Estimates with 95%
    intervals over problems. Truncated texts are not among the samples. Raises DataError for a damaged file."""
    found = []
    for number, place in numbered_folders(folder, "iteration"):
        rows = [row for path in _played(place) for row in parquet_rows(path, ["role", "label", "problem"], DAMAGED)]
        one: dict[str, Any] = {"iteration": number}
        for metric, (won, of) in SHARES.items():
            role = metric.partition("/")[0]
            own = rows if "win_rate" in metric else [row for row in rows if row["role"] == role]
            estimate = ratio_interval(
                [float(row["label"] in won) for row in own],
                [float(row["label"] in of) for row in own],
                [row["problem"] for row in own],
            )
            if estimate is not None:
                one[metric] = estimate
        if rows:  # iteration 0, the imitation of another run, plays nothing
            found.append(one)
    return found


def samples_of(folder: Path) -> list[dict[str, Any]]:
    """Return rows as in samples.jsonl: for each iteration one revision of every outcome, and two first answers and two
    critiques of each label, from the first files that have them."""
    found: list[dict[str, Any]] = []
    for _, place in numbered_folders(folder, "iteration"):
        wanted = {("prover", outcome): 1 for outcome in (*OF_WRONG, *OF_RIGHT)}
        wanted |= {("prover", label): 2 for label in ("right", "wrong")}
        wanted |= {(critic, label): 2 for critic in ("helpful", "misleading") for label in ("shown", "unreadable")}
        for path in _played(place):
            if not any(wanted.values()):
                break
            for row in parquet_rows(path, cure=DAMAGED):
                if wanted.get((row["role"], row["label"]), 0):
                    wanted[row["role"], row["label"]] -= 1
                    found.append({
                        "step": row["iteration"], "role": row["role"], "prompt": json.loads(row["prompt"]),
                        "completion": row["completion"], "reward": row["reward"], "problem": row["problem"],
                        "reason": row["label"],
                    })  # fmt: skip
    return found


def _played(place: Path) -> list[Path]:
    return sorted(place.glob("played-*.parquet"))
