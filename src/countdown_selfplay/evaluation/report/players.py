"""The players of a run by its metrics' names: one prover is `prover`, two of a pool `prover/0` and `prover/1`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .load import Run


def players_of(runs: Sequence[Run], kind: str) -> list[str]:
    """Of all runs together, in their order; the kind itself for a single player."""
    numbers = {int(match[1]) for run in runs for match in map(re.compile(rf"{kind}/(\d+)/").match, run.names) if match}
    return [f"{kind}/{i}" for i in sorted(numbers)] or [kind]


def of_players(metric: str, label: str, runs: Sequence[Run]) -> list[tuple[str, str]]:
    """(metric, label) of each player for a metric that is declared of a kind, such as `prover/reward` or
    `lr/prover`."""
    match = re.search(r"(?:^|[/_])(prover|conjecturer)(?=/|$)", metric)
    if match is None:
        return [(metric, label)]
    players = players_of(runs, match[1])
    if len(players) == 1:
        return [(metric, label)]
    before, after = metric[: match.start(1)], metric[match.end(1) :]
    return [(f"{before}{one}{after}", one if label == match[1] else f"{label}, {one}") for one in players]
