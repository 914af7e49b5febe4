"""The ladder as a heat map, rung by round: how well each rung is solved, and over it what was proposed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .load import Run
from .pictures import Figure, rung_map

SECTION = "Rungs"
MEASURED, PLAYED = "Rungs: pass@1 on held-out problems", "Rungs: solve rate of what was played"
_COLUMNS, _MARKS = 60, 20  # most columns of solve rates, and of marks
_MEASURED = re.compile(r"eval_pass@1/rung_(-?\d+)")
_LOGGED = re.compile(r"round/rung_(-?\d+)_(?:proposed|played)")


@dataclass(frozen=True)
class RungMap:
    """rungs: ascending, the rows. starts: where each column begins, in rounds; end: where the last one ends. rates_CR:
    share solved by column and rung, NaN where nothing is known; measured: on held-out problems, in the run's
    evaluations, between which columns meet half-way. marks: rounds at which the shares are drawn; shares_MR: of
    the proposals of the rounds around a mark those of each rung, a row of 0 where there was none."""

    rungs: list[int]
    starts: list[float]
    end: float
    rates_CR: np.ndarray
    measured: bool
    marks: list[float]
    shares_MR: np.ndarray


def rung_data(run: Run) -> RungMap | None:
    """What the picture shows; None for a run whose problems are of one rung, or that logs none. A run that is not
    evaluated while it trains shows the solve rates of its rounds, in which a rung's problems are those that were
    chosen, and not all of it."""
    found = {int(match[1]) for row in run.rounds for match in map(_LOGGED.fullmatch, row) if match}
    found |= {int(match[1]) for row in run.others for match in map(_MEASURED.fullmatch, row) if match}
    if len(found) < 2 or not run.rounds:
        return None
    rungs = [rung for rung in sorted(found) if _occurs(run, rung)]
    evaluations = [row for row in run.others if any(map(_MEASURED.fullmatch, row))]
    starts, rates_CR = _measured(run, evaluations, rungs) if evaluations else _played(run, rungs)
    marks, shares_MR = _proposed(run, rungs)
    each = run.per_round
    end = run.steps[-1] / each + (0 if evaluations and starts[-1] < run.steps[-1] else 1)
    rounds = [start / each for start in starts]
    return RungMap(rungs, rounds, end, rates_CR, bool(evaluations), [mark / each for mark in marks], shares_MR)


def drawn_rungs(runs: Sequence[Run]) -> dict[str, dict[str, Figure]]:
    """The section, with a picture for each run that has rungs; {} without one."""
    found: dict[str, Figure] = {}
    for run in runs:
        data = rung_data(run)
        if data is not None:
            words = MEASURED if data.measured else PLAYED
            title = words if len(runs) == 1 else f"{words}: {run.name}"
            found[title] = rung_map(
                title, data.rungs, data.starts, data.end, data.rates_CR, data.marks, data.shares_MR
            )
    return {SECTION: found} if found else {}


def _occurs(run: Run, rung: int) -> bool:
    """Whether anything was proposed or played of the rung, or measured on it."""
    logged = [f"round/rung_{rung}_{what}" for what in ("proposed", "played")]
    measured = any(f"eval_pass@1/rung_{rung}" in row for row in run.others)
    return measured or any(row.get(name, 0) > 0 for row in run.rounds for name in logged)


def _measured(
    run: Run, evaluations: Sequence[dict[str, float]], rungs: Sequence[int]
) -> tuple[list[float], np.ndarray]:
    """The evaluations of the run, before them the one before training."""
    before = run.evaluation.get("before", {}).get("by_rung", {})
    first = {f"eval_pass@1/rung_{rung}": value for rung, value in before.items()}
    rows = [{"step": 0.0, **first}] * bool(first) + [*evaluations]
    rows = [row for i, row in enumerate(rows) if i == 0 or row["step"] > rows[i - 1]["step"]]
    rates = [[row.get(f"eval_pass@1/rung_{rung}", np.nan) for rung in rungs] for row in rows]
    steps = [row["step"] for row in rows]
    return [steps[0], *((a + b) / 2 for a, b in pairwise(steps))], np.array(rates)


def _played(run: Run, rungs: Sequence[int]) -> tuple[list[float], np.ndarray]:
    """Solve rates of the rounds, weighed by the problems played, of several rounds together where there are many."""
    size = max(1, -(-len(run.rounds) // _COLUMNS))
    starts = [float(step) for step in run.steps[::size]]
    counts_CR, solved_CR = np.zeros((2, len(starts), len(rungs)))
    for i, row in enumerate(run.rounds):
        for j, rung in enumerate(rungs):
            count = row.get(f"round/rung_{rung}_played", 0.0)
            counts_CR[i // size, j] += count
            solved_CR[i // size, j] += count * row.get(f"round/rung_{rung}_solve_rate", 0.0)
    return starts, np.where(counts_CR > 0, solved_CR / np.maximum(counts_CR, 1e-9), np.nan)


def _proposed(run: Run, rungs: Sequence[int]) -> tuple[list[float], np.ndarray]:
    """Mean round of each group of rounds, and the rungs' shares of its proposals."""
    size = max(1, -(-len(run.rounds) // _MARKS))
    groups = [run.rounds[i : i + size] for i in range(0, len(run.rounds), size)]
    counts_MR = np.array(
        [[sum(row.get(f"round/rung_{rung}_proposed", 0.0) for row in group) for rung in rungs] for group in groups]
    )
    totals_M1 = counts_MR.sum(1, keepdims=True)
    return [float(np.mean([row["step"] for row in group])) for group in groups], counts_MR / np.maximum(totals_M1, 1)
