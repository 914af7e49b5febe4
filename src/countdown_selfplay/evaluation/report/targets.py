"""Figures of SGS for runs with the proposer `targets`, beside the charts that its metrics declare: the cumulative
solve rate over generations, and trainable problems before a target was solved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...proposers.targets_metrics import BINS
from .arms import arms_of
from .load import Run
from .pictures import Curve, Figure, line_chart
from .target_sets import beyond_baseline, composition, fit_checks, over_generations, solved_by, stories

SECTION = "Targets"
SOLVED, BEFORE = "Cumulative solve rate of the targets", "Trainable synthetic problems before a target is solved"


def target_figures(runs: Sequence[Run], yardsticks: Mapping[str, float] | None = None) -> dict[str, Figure]:
    """By title; {} unless a run has targets. yardsticks: name -> solve rate of something else on the same targets,
    such as the pass@4 of a larger model, drawn as a line."""
    runs = [run for run in runs if len(solved_by(run)[0])]
    if not runs:
        return {}
    found = _cumulative(runs, yardsticks or {}) | _before_solved(runs) | stories(runs) | fit_checks(runs)
    return found | beyond_baseline(runs) | composition(runs[0])


def _cumulative(runs: Sequence[Run], yardsticks: Mapping[str, float]) -> dict[str, Figure]:
    """Figure 1, right: mean over the seeds of an arm, with their interval as a band."""
    title, curves = SOLVED, []
    for arm in arms_of(runs):
        label = arm.name if len(runs) > 1 else "solved so far"
        curves.append(over_generations(label, [solved_by(run) for run in arm.runs]))
    ends_at = np.array([min(curve.x[0] for curve in curves), max(curve.x[-1] for curve in curves)])
    lines = [Curve(name, ends_at, np.full(2, rate)) for name, rate in yardsticks.items()]
    return {title: line_chart(title, [*curves, *lines], y_range=(0.0,), x_label="generations")}


def _before_solved(runs: Sequence[Run]) -> dict[str, Figure]:
    """Figure 5, right, of the last round that logged it: ten tenths of the rounds before a target was solved."""
    title, curves = BEFORE, []
    for arm in arms_of(runs):
        rows = [[run.series(f"targets/presolve_{k}") for k in range(BINS)] for run in arm.runs]
        known = [[series[-1][1] for series in row] for row in rows if all(row)]
        if known:
            label = arm.name if len(runs) > 1 else "share of rounds"
            curves.append(Curve(label, np.arange(1, BINS + 1), np.mean(known, axis=0)))
    x_label = "tenth of the rounds before"
    return {title: line_chart(title, curves, y_range=(0.0,), x_label=x_label)} if curves else {}
