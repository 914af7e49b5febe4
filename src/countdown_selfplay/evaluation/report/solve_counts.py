"""How often each held-out problem was solved: the histogram in which Allen and Ståblein (section 5.2) saw a mode
collapse, 19 of 50 problems in 0 of 16 answers, 19 in 12 or more, and 12 between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .load import Run
from .pictures import Curve, Figure, line_chart

OFTEN = 0.75  # of the answers: 12 of 16


@dataclass(frozen=True)
class SolveCounts:
    """Problems that were never solved, solved in at least `OFTEN` of the answers, and the rest; their histogram, of
    length n + 1."""

    never: int
    often: int
    between: int
    histogram: np.ndarray

    def __str__(self) -> str:
        total = self.never + self.often + self.between
        return f"{self.never / total:.0%} never, {self.often / total:.0%} often"


def solve_counts(correct: Sequence[int], n: int) -> SolveCounts:
    """`correct`: right answers of each problem, out of n. Sharply bimodal: `between` is small beside both others."""
    counts = np.bincount(np.asarray(correct, dtype=int), minlength=n + 1)
    never, often = int(counts[0]), int(counts[int(np.ceil(OFTEN * n)) :].sum())
    return SolveCounts(never, often, len(correct) - never - often, counts)


def solve_count_chart(runs: Sequence[Run]) -> dict[str, Figure]:
    """Shares of the held-out problems by right answers, before and after training, of several runs after it; {} where
    nothing was evaluated. `often`: in at least three quarters of the answers."""
    wanted = [(runs[0], when, when) for when in ("before", "after")] if len(runs) == 1 else []
    wanted += [(run, "after", run.name) for run in runs] if len(runs) > 1 else []
    curves, sizes = [], set()
    for run, when, label in wanted:
        found = run.evaluation.get(when, {})
        if found.get("correct") and found["n"]:
            counts = solve_counts(found["correct"], found["n"])
            shares = counts.histogram / counts.histogram.sum()
            curves.append(Curve(f"{label}: {counts}", np.arange(found["n"] + 1), shares))
            sizes.add(found["n"])
    if not curves or len(sizes) > 1:
        return {}
    title = "Held-out problems by right answers"
    return {title: line_chart(title, curves, y_range=(0,), x_label=f"right answers of {sizes.pop()}")}
