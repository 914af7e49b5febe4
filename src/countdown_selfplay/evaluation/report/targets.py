"""The figures of SGS for runs with the proposer `targets`: what was solved against what was generated, what the
conjecturer earned, and what happened before a target was solved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...proposers.targets_metrics import BINS
from .arms import arms_of
from .charts import SHARE, Chart, compare, curve, draw
from .load import Run
from .pictures import Curve, Figure, line_chart
from .target_sets import beyond_baseline, composition, fit_checks, over_generations, solved_by, stories

SECTION = "Targets"

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
    Chart(
        "Size of the synthetic problems",
        (("targets/problem_size", "their numbers"), ("targets/set_size", "of the target set")),
    ),
    Chart(
        "Complex synthetic problems",
        (("targets/problem_complex", "share"), ("targets/set_complex", "of the target set")),
        SHARE,
    ),
    Chart("Entropy of the answers to targets", (("prover/sampled_entropy", "nats per token"),), (0.0,)),
    Chart("Reviews that can be read", (("guide/format_rate", "share"),), SHARE),
)
"""Figures 3 (left and right), 6 (right), 2, and 7 (top right) and 11, over rounds."""

LINES = {"targets/problem_size": "targets/set_size", "targets/problem_complex": "targets/set_complex"}
"""Metric -> the target set's own value, which is a line in the chart of several runs too (figure 2)."""

SOLVED, _BEFORE = "Cumulative solve rate of the targets", "Trainable synthetic problems before a target is solved"
EXPLAINED = (
    *CHARTS,
    Chart(SOLVED, (("targets/solve_rate", "share of targets"),)),
    Chart(_BEFORE, (("targets/presolve_0", "share of rounds"),)),
)
"""What the section shows."""


def target_figures(runs: Sequence[Run], yardsticks: Mapping[str, float] | None = None) -> dict[str, Figure]:
    """By title; {} unless a run has targets. yardsticks: name -> solve rate of something else on the same targets,
    such as the pass@4 of a larger model, drawn as a line."""
    runs = [run for run in runs if len(solved_by(run)[0])]
    if not runs:
        return {}
    found = _cumulative(runs, yardsticks or {})
    for chart in CHARTS:
        own = next((metric for metric, _ in chart.metrics if metric in LINES), None)
        if len(runs) > 1 and own is not None:
            found |= _beside_the_set(chart, own, runs)
        else:
            found |= draw(chart, runs[0]) if len(runs) == 1 else compare(chart, runs)
    found |= _before_solved(runs) | stories(runs) | fit_checks(runs)
    return found | beyond_baseline(runs) | composition(runs[0])


def _beside_the_set(chart: Chart, metric: str, runs: Sequence[Run]) -> dict[str, Figure]:
    """Figure 2: a curve per arm, and the target set's own value."""
    runs = [run for run in runs if run.series(metric)]
    if not runs:
        return {}
    curves = [curve(arm.runs, metric, arm.name, chart.y_range == SHARE, raw=False) for arm in arms_of(runs)]
    ends = np.array([min(one.x[0] for one in curves), max(one.x[-1] for one in curves)])
    own = runs[0].series(LINES[metric])[0][1]
    curves.append(Curve("the target set", ends, np.full(2, own)))
    return {chart.title: line_chart(chart.title, curves, y_range=chart.y_range)}


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
    title, curves = _BEFORE, []
    for arm in arms_of(runs):
        rows = [[run.series(f"targets/presolve_{k}") for k in range(BINS)] for run in arm.runs]
        known = [[series[-1][1] for series in row] for row in rows if all(row)]
        if known:
            label = arm.name if len(runs) > 1 else "share of rounds"
            curves.append(Curve(label, np.arange(1, BINS + 1), np.mean(known, axis=0)))
    x_label = "tenth of the rounds before"
    return {title: line_chart(title, curves, y_range=(0.0,), x_label=x_label)} if curves else {}
