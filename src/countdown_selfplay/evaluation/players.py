"""Single players of a pool in what a run was measured by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..statistics.bootstrap import Interval, paired_bootstrap

RESAMPLES = 2_000
"""Of the interval of one player, which is a detail beside that of all together."""


def single_players(side: Mapping[str, Any], kind: str) -> list[str]:
    """`prover/0`, `prover/1` of a pool, in their order; [] where the kind has one player, who has the kind's name."""
    return sorted((name for name in side if name.startswith(f"{kind}/")), key=lambda name: (len(name), name))


def changes_of_players(result: Mapping[str, Any]) -> dict[str, dict[str, Interval]]:
    """Prover -> pass@k -> after minus before with a 95% interval, paired over problems, for the least and the greatest
    k; {} where one prover was measured. `result`: as in evaluation.json."""
    before, after = result.get("before") or {}, result.get("after") or {}
    found: dict[str, dict[str, Interval]] = {}
    for player in single_players(after, "prover"):
        if player not in before:
            continue
        a, b = before[player], after[player]
        ks = sorted(map(int, b["pass_at"]))
        found[player] = {
            f"pass@{k}": paired_bootstrap(a["correct"], b["correct"], a["n"], k=k, resamples=RESAMPLES)
            for k in dict.fromkeys((ks[0], ks[-1]))
        }
    return found
