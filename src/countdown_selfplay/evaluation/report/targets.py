"""The figures of seed 003 for runs with the proposer `targets`: what was solved against what was generated, what the
conjecturer earned, and what happened before a target was solved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .arms import arms_of, over_seeds
from .charts import SHARE, Chart, compare, draw
from .load import Run
from .pictures import Curve, Figure, line_chart

SECTION = "Targets"
BINS = 10

CHARTS = (
    Chart("Targets solved in a round", (("targets/pass_at_n", "share of targets"),), SHARE),
    Chart(
        "What a synthetic problem earns",
        (
            ("round/reward_r_solve", "R_solve"),
            ("round/reward_r_guide", "R_guide"),
            ("round/reward_r_synth", "product"),
        ),
        (0.0,),
    ),
    Chart("Synthetic problems to train on", (("targets/trainable", "solved, at most half of the time"),), (0.0,)),
    Chart("Reviews that can be read", (("guide/format_rate", "share"),), SHARE),
)
"""Figures 3 (left and right) and 6 (right), over rounds."""
_SOLVED, _BEFORE = "Cumulative solve rate of the targets", "Trainable synthetic problems before a target is solved"
EXPLAINED = (
    *CHARTS,
    Chart(_SOLVED, (("targets/solve_rate", "share of targets"),)),
    Chart(_BEFORE, (("targets/presolve_0", "share of rounds"),)),
)
"""What the section shows."""


def target_figures(runs: Sequence[Run], yardsticks: Mapping[str, float] | None = None) -> dict[str, Figure]:
    """By title; {} unless a run has targets. yardsticks: name -> solve rate of something else on the same targets,
    such as the pass@4 of a larger model, drawn as a line."""
    runs = [run for run in runs if run.series("targets/solve_rate")]
    if not runs:
        return {}
    found = _cumulative(runs, yardsticks or {})
    for chart in CHARTS:
        found |= draw(chart, runs[0]) if len(runs) == 1 else compare(chart, runs)
    return found | _before_solved(runs)


def solved_by(runs: Sequence[Run]) -> tuple[np.ndarray, np.ndarray]:
    """Generations (X) and cumulative solve rates (R, X) of runs of one arm, at the generations that any of them logged
    and all of them reached; a rate holds until the next one."""
    curves = []
    for run in runs:
        rows = [row for row in run.rounds if "targets/solve_rate" in row and "round/generations" in row]
        curves.append(
            (np.array([r["round/generations"] for r in rows]), np.array([r["targets/solve_rate"] for r in rows]))
        )
    first, last = max(at[0] for at, _ in curves), min(at[-1] for at, _ in curves)
    x = np.unique(np.concatenate([at for at, _ in curves]))
    x = x[(x >= first) & (x <= last)]
    return x, np.stack([rate[np.searchsorted(at, x, side="right") - 1] for at, rate in curves])


def _cumulative(runs: Sequence[Run], yardsticks: Mapping[str, float]) -> dict[str, Figure]:
    """Figure 1, right: mean over the seeds of an arm, with their interval as a band."""
    title, curves = _SOLVED, []
    for arm in arms_of(runs):
        x, rate_RX = solved_by(arm.runs)
        ends = [over_seeds(column.tolist()) for column in rate_RX.T] if len(rate_RX) > 1 else []
        low = np.array([max(end.low, 0.0) for end in ends]) if ends else None
        high = np.array([min(end.high, 1.0) for end in ends]) if ends else None
        label = arm.name if len(runs) > 1 else "solved so far"
        curves.append(Curve(label, x, rate_RX.mean(0), None, low, high))
    ends_at = np.array([min(curve.x[0] for curve in curves), max(curve.x[-1] for curve in curves)])
    lines = [Curve(name, ends_at, np.full(2, rate)) for name, rate in yardsticks.items()]
    return {title: line_chart(title, [*curves, *lines], y_range=(0.0,), x_label="generations")}


def _before_solved(runs: Sequence[Run]) -> dict[str, Figure]:
    """Figure 5, right, of the last round that logged it: ten tenths of the rounds before a target was solved."""
    title, curves = _BEFORE, []
    for arm in arms_of(runs):
        rows = [[run.series(f"targets/presolve_{k}") for k in range(BINS)] for run in arm.runs]
        known = [[series[-1][1] for series in row] for row in rows if all(row)]
        if known:
            label = arm.name if len(runs) > 1 else "share of rounds"
            curves.append(Curve(label, np.arange(1, BINS + 1), np.mean(known, axis=0)))
    x_label = "tenth of the rounds before"
    return {title: line_chart(title, curves, y_range=(0.0,), x_label=x_label)} if curves else {}
