"""Figures of SGS for runs with the proposer `targets`, in addition to declared charts: 1, 5, 8, 10 and 13."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...countdown import problem_of_key
from ...countdown.features import FEATURES, feature_matrix
from ...evaluation.load import Run, read_object
from ...proposers.metrics import BINS, LAST_SOLVED, STORIES
from ...statistics.solved import FIRST_SOLVED
from ..scaling import Points, fits_on_halves, fits_without_tails
from .charts import arms_of, lines_of, over_seeds
from .pictures import Bars, Curve, Figure, bar_grid, cells

SOLVED = "Cumulative solve rate of the targets"

MOST = 2000  # targets, the first ones, whose features are computed for figure 10
POINTS = 100  # approximate number of points of an arm that figure 8 fits, 104 times
SINCE = "generations since every target was attempted"

Series = tuple[np.ndarray, np.ndarray]
"""Generations and rate of one run."""


def target_figures(runs: Sequence[Run], yardsticks: Mapping[str, float] | None = None) -> dict[str, Figure]:
    """Return the figures by title; {} unless a run has targets. yardsticks: name -> solve rate of a reference on the
    same targets, such as the pass@4 of a larger model, drawn as a line."""
    runs = [run for run in runs if len(solved_by(run)[0])]
    if not runs:
        return {}
    solved, before = [], []
    for arm in arms_of(runs):  # figure 1, right, and figure 5, right, of the last round that logged it
        label = arm.name if len(runs) > 1 else "solved so far"
        solved.append(over_generations(label, [solved_by(run) for run in arm.runs]))
        rows = [[run.series(f"targets/presolve_{k}") for k in range(BINS)] for run in arm.runs]
        known = [[series[-1][1] for series in row] for row in rows if all(row)]
        if known:
            label = arm.name if len(runs) > 1 else "share of rounds"
            before.append(Curve(label, np.arange(1, BINS + 1), np.mean(known, axis=0)))
    ends_at = np.array([min(curve.x[0] for curve in solved), max(curve.x[-1] for curve in solved)])
    solved += [Curve(name, ends_at, np.full(2, rate)) for name, rate in (yardsticks or {}).items()]
    figures = lines_of(SOLVED, solved, y_range=(0.0,), x_label="generations")
    title = "Trainable synthetic problems before a target is solved"
    figures |= lines_of(title, before, y_range=(0.0,), x_label="tenth of the rounds before")
    return figures | stories(runs) | fit_checks(runs) | beyond_baseline(runs) | composition(runs[0])


def _logged(run: Run) -> list[dict[str, float]]:
    return [row for row in run.rounds if "targets/solve_rate" in row and "round/generations" in row]


def solved_by(run: Run) -> Series:
    """Return generations and cumulative solve rate of the logged rounds."""
    rows = _logged(run)
    return np.array([r["round/generations"] for r in rows]), np.array([r["targets/solve_rate"] for r in rows])


def after_first_pass(run: Run) -> int:
    """Return the index of the logged round from which on every target had been attempted; 0 if the run does not record
    it. Before it a cumulative solve rate grows with every batch of targets, without learning."""
    return next((i for i, row in enumerate(_logged(run)) if row.get("targets/attempted", 1) >= 1), 0)


def on_one_grid(curves: Sequence[Series]) -> tuple[np.ndarray, np.ndarray]:
    """Return generations (X) and rates (R, X) of runs of one arm, at the generations that any of them logged and all
    of them reached; a rate is constant until the next one."""
    first, last = max(at[0] for at, _ in curves), min(at[-1] for at, _ in curves)
    x = np.unique(np.concatenate([at for at, _ in curves]))
    x = x[(x >= first) & (x <= last)]
    return x, np.stack([rate[np.searchsorted(at, x, side="right") - 1] for at, rate in curves])


def over_generations(label: str, curves: Sequence[Series]) -> Curve:
    """Plot the mean over the seeds of an arm, with their interval as a band."""
    x, rate_RX = on_one_grid(curves)
    ends = [over_seeds(column.tolist()) for column in rate_RX.T] if len(rate_RX) > 1 else []
    low, high = (np.clip([getattr(end, side) for end in ends], 0, 1) if ends else None for side in ("low", "high"))
    return Curve(label, x, rate_RX.mean(0), None, low, high)


def first_solved(run: Run) -> dict[str, int | None]:
    """Return target -> round in which it was first solved (None: never), without those set aside; {} if unwritten."""
    what = "which targets were set aside"
    aside = read_object(run.path / STORIES, what, lambda f: dict.fromkeys(f.get("aside", [])))
    first = read_object(run.path / FIRST_SOLVED, "when targets were solved", lambda f: dict(f.get("first_solved", {})))
    return {key: at for key, at in first.items() if key not in aside}


def beyond_baseline(runs: Sequence[Run]) -> dict[str, Figure]:
    """Plot figure 13: of the targets that no run of the baseline (REINFORCE^1/2 on the targets alone) solved, the
    share that each arm has solved. {} without a baseline among the runs, or if it solved everything."""
    known = {id(run): first for run in runs if (first := first_solved(run))}
    runs_known = [run for run in runs if id(run) in known]
    base = []
    for run in runs_known:
        alone = run.config.get("conjecturer_players") == 0 and run.config.get("prover_learning_rate") != 0
        if alone and run.config.get("prover_objective") == "reinforce_half":
            base.append(known[id(run)])
    hard = {key for key in (base[0] if base else {}) if all(one.get(key) is None for one in base)}
    if not hard or len(base) == len(runs):
        return {}
    curves = []
    for arm in arms_of(runs_known):
        series: list[Series] = []
        for run in arm.runs:
            at = np.sort([value for key in hard if (value := known[id(run)].get(key)) is not None])
            solved = np.searchsorted(at, [row["step"] for row in _logged(run)], side="right")
            series.append((solved_by(run)[0], solved / len(hard)))
        curves.append(over_generations(arm.name, series))
    title = f"Of the {len(hard)} targets that the baseline never solved"
    return lines_of(title, curves, y_range=(0.0,), x_label="generations")


def stories(runs: Sequence[Run]) -> dict[str, Figure]:
    """Plot figure 5, left: a row for each of the targets solved last, a cell for each earlier round in which it was
    played, green if its synthetic problem was trainable."""
    drawn: dict[str, Figure] = {}
    for run in runs:
        history = read_object(run.path / STORIES, "how targets were solved", _stories)
        rows = list(history.values())[-LAST_SOLVED:]
        if any("1" in row for row in rows):  # without a conjecturer that sees the target there are none
            title = f"The {len(rows)} targets solved last" + (f": {run.name}" if len(runs) > 1 else "")
            marks = np.full((len(rows), max(map(len, rows))), np.nan)
            for cells_X, row in zip(marks, rows, strict=True):
                cells_X[: len(row)] = [float(mark) for mark in row]
            x_edges, y_edges = (np.arange(size + 1) + 0.5 for size in marks.T.shape)
            drawn[title] = cells(
                title, x_edges, y_edges, marks, [("C6", "no suitable problem"), ("C2", "suitable for training")],
                labels=("time that it was played before it was solved", ""), colors=("C6", "C2"), missing="none",
                inverted=True,
            )  # fmt: skip
    return drawn


def fit_checks(runs: Sequence[Run]) -> dict[str, Figure]:
    """Plot figure 8, two panels for each arm: the fits without the last 10, 20 and 30% of its points, and those on 100
    random halves, of which the lowest and the highest asymptote are drawn. {} if an arm's curve cannot be fitted. As
    in the paper the fits are re-centred: generations and R0 begin when a run has attempted every target (the paper
    leaves out its first 100,000 generations)."""
    drawn: dict[str, Figure] = {}
    for arm in arms_of(runs):
        cut = [(solved_by(run), after_first_pass(run)) for run in arm.runs]
        known = [(x[at:] - x[at], y[at:]) for (x, y), at in cut if len(x)]
        every = max(1, sum(len(x) for x, _ in known) // POINTS)
        points = Points.of([(x[::every].tolist(), y[::every].tolist()) for x, y in known], 0)
        x_N, y_N = points.pooled()
        whole = points.fit(x_N, y_N) if len(x_N) else None
        if whole is None or whole.asymptote is None:
            continue
        x = np.linspace(x_N.min(), x_N.max(), 120)
        name = f": {arm.name}" if len(runs) > 1 else ""
        dots = (x_N.tolist(), y_N.tolist())
        curves = [Curve(f"all points: {whole.asymptote:.3f}", x, whole(x), dots=dots)]
        for share, fit in fits_without_tails(points).items():
            if fit.converged:
                curves.append(Curve(f"without the last {share:.0%}: {fit.asymptote:.3f}", x, fit(x)))
        title = f"Fits without the end of the run{name}"
        drawn |= lines_of(title, curves, y_range=(0.0,), x_label=SINCE)
        halves = sorted(fits_on_halves(points), key=lambda fit: fit.asymptote or 0.0)
        if len(halves) > 1:
            values = np.array([fit.asymptote for fit in halves], dtype=float)
            spread = f"{values.mean():.3f} ± {values.std(ddof=1):.3f} over {len(halves)} halves"
            ends = [(f"highest: {values[-1]:.3f}", halves[-1]), (f"lowest: {values[0]:.3f}", halves[0])]
            curves = [Curve(spread, x, whole(x), dots=dots), *(Curve(label, x, fit(x)) for label, fit in ends)]
            title = f"Fits to halves of the points{name}"
            drawn |= lines_of(title, curves, y_range=(0.0,), x_label=SINCE)
    return drawn


def composition(run: Run) -> dict[str, Figure]:
    """Plot figure 10: the targets by the operations that every solution needs and by the number of solutions, and the
    solved ones among them. {} for a domain without Countdown's keys."""
    first = first_solved(run)
    if not first or run.config.get("domain", "countdown") != "countdown":
        return {}
    keys = list(first)[:MOST]
    try:
        columns = dict(zip(FEATURES, feature_matrix([problem_of_key(key) for key in keys]).T, strict=True))
    except ValueError:  # of a domain that was passed as an object
        return {}
    solved_P = np.array([first[key] is not None for key in keys])
    needs = {"+": "add", "-": "sub", "*": "mul", "/": "div", "fraction": "fraction"}
    kinds = {word: columns[f"needs_{name}"] == 1 for word, name in needs.items()}
    kinds["none of them"] = ~np.any(list(kinds.values()), axis=0)
    levels = {"1": (1, 1), "2": (2, 2), "3 to 4": (3, 4), "5 to 8": (5, 8), "9 or more": (9, np.inf)}
    counts = {word: (columns["solutions"] >= a) & (columns["solutions"] <= b) for word, (a, b) in levels.items()}
    panels = {"What the targets need": (kinds, "every solution needs")}
    panels["How many solutions the targets have"] = (counts, "inequivalent solutions")
    drawn: dict[str, Figure] = {}
    for title, (groups, label) in panels.items():
        bars = [("targets", [float(of.sum()) for of in groups.values()])]
        bars.append(("solved", [float((solved_P & of).sum()) for of in groups.values()]))
        drawn[title] = bar_grid([Bars(title, list(groups), bars, label)])
    return drawn


def _stories(content: Mapping[str, Any]) -> dict[str, str]:
    """Return target -> marks of those that were not solved at once, by the round in which they were solved."""
    solved = sorted(content.get("solved", []), key=lambda story: story[1])
    return {str(key): str(marks) for key, _, marks in solved if marks}
