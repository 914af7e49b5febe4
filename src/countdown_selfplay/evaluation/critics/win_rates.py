"""Who wins when provers and critics of different iterations meet (Wang et al. 2025, section 5.4 and figure 4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...statistics.ratios import ratio_interval

OF_WRONG = ("corrected", "not_corrected")
OF_RIGHT = ("resisted", "kept", "misled", "unclear")
"""How revisions of wrong and of right first answers end (games/critic_discernment.py)."""

RATES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "corrected": (("corrected",), OF_WRONG),
    "resisted": (("resisted",), OF_RIGHT),
    "stands": (("resisted", "kept"), OF_RIGHT),
    "misled": (("misled",), OF_RIGHT),
}
"""Name -> (outcomes that count, of which revisions). corrected: prover and helpful critic win together (figure 4,
left). resisted: the prover rejects a misleading critique in the game's words (figure 4, right). stands: its right
answer survives, rejected or given anew. misled: the misleading critic wins."""


def win_rates(
    provers: Sequence[str],
    critics: Sequence[str],
    round_of: Callable[[str, str], Any],
    game: Any,
    problems: Sequence[Any],
    seed: int = 0,
) -> dict[str, Any]:
    """The game played on `problems` by every prover with every pair of critics, as plain JSON values.

    round_of: the names of a prover and of critics -> a Round in which they play; with equal seeds in all of them a
    prover gives the same first answers to all critics. Each cell holds RATES with 95% intervals (bootstrap over
    problems), None where no first answer was of the kind, and the counts of outcomes. Critics are asked about the
    answers of the prover that they meet.
    """
    cells = []
    for prover in provers:
        for critic in critics:
            outcomes = played_outcomes(game, round_of(prover, critic), problems)
            cells.append({"prover": prover, "critics": critic, **cell_figures(outcomes, seed)})
    return {"provers": list(provers), "critics": list(critics), "problems": len(problems), "cells": cells}


def played_outcomes(game: Any, round: Any, problems: Sequence[Any]) -> list[tuple[str, str]]:
    """(key of the problem, outcome) of every revision of one round."""
    found = []
    for turn in game.play(round, problems).turns:
        said, labels = turn.rollout, turn.labels or []
        if not set(labels) & {*OF_WRONG, *OF_RIGHT}:
            continue
        domain = round.domain
        keys = [domain.key(domain.problem(row, i)) for i, row in enumerate(said.rows)]
        found += [(keys[i // said.n], label) for i, label in enumerate(labels)]
    return found


def cell_figures(outcomes: Sequence[tuple[str, str]], seed: int = 0) -> dict[str, Any]:
    """RATES and counts of the outcomes of revisions, each with its problem's key."""
    keys = [key for key, _ in outcomes]
    figures: dict[str, Any] = {}
    for name, (won, of) in RATES.items():
        parts = [float(outcome in won) for _, outcome in outcomes]
        found = ratio_interval(parts, [float(outcome in of) for _, outcome in outcomes], keys, seed=seed)
        figures[name] = None if found is None else found.to_dict()
    return {**figures, "outcomes": dict(sorted(Counter(outcome for _, outcome in outcomes).items()))}


def matrix_of(result: Mapping[str, Any], rate: str) -> list[list[float | None]]:
    """A rate of `win_rates` as rows of provers and columns of critics."""
    cells = {(cell["prover"], cell["critics"]): cell[rate] for cell in result["cells"]}
    return [
        [None if cells[p, c] is None else float(cells[p, c]["value"]) for c in result["critics"]]
        for p in result["provers"]
    ]
