"""Tables of a study of the Critic-Discernment Game: arms over training seeds, and the paper's pattern of win rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from countdown_selfplay.lab.critics.win_rates import RATES, Iteration, matrix_of
from countdown_selfplay.statistics.bootstrap import Estimate, Interval, t_interval, two_level_interval


def _value(found: Mapping[str, Any] | None, name: str = "value") -> float:
    return float("nan") if found is None else float(found[name])


def _detected(figures: Mapping[str, Any], rate: str) -> float:
    """Of error detection; NaN where no step could be judged."""
    return _value((figures["error_detection"] or {}).get(rate))


FIGURES: dict[str, Callable[[Mapping[str, Any]], float]] = {
    "pass@1": lambda f: _value(f["pass@1"]),
    "majority@8": lambda f: _value(f["majority@8"]),
    "majority@32": lambda f: _value(f["majority@32"]),
    "error detection F1": lambda f: _detected(f, "f1"),
    "accuracy": lambda f: _detected(f, "accuracy"),
    "right -> wrong": lambda f: _value(f["self_correction"]["right_to_wrong"]),
    "wrong -> right": lambda f: _value(f["self_correction"]["wrong_to_right"]),
    "change": lambda f: _value(f["self_correction"]["change"], "difference"),
    "average": lambda f: (
        (_value(f["pass@1"]) + _detected(f, "f1") + _value(f["self_correction"]["change"], "difference")) / 3
    ),
}
"""Name -> where it stands in what prover_figures found, with self_correction beside it; NaN: there is no such rate.
average: of the tasks of table 3 that there are here: pass@1, error detection's F1, the change by checking again."""
Values = Mapping[str, Mapping[str, Sequence[float]]]
"""arm -> figure -> a value per training seed."""
Problems = Mapping[str, Mapping[str, Sequence[Sequence[float]]]]
"""arm -> figure -> its values per training seed and problem, of those figures that are means over problems."""
RIVALS = ("prover", "misleading")


def arm_table(values: Values, control: str | None, problems: Problems | None = None) -> str:
    """Markdown: each figure's mean over seeds with Student's 95% interval (one seed: the value alone), or its
    difference to the arm `control`, seed by seed, or of figures in `problems` over seeds and problems; and below how
    many of these intervals leave out 0 and how many would by chance. Arms that have no `control` beside them give no
    rows."""
    names = list(next(iter(values.values())))
    lines = [f"| arm | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    apart: list[bool] = []
    for arm, own in values.items():
        if arm == control or (control is not None and control not in values):
            continue
        cells = []
        for name in names:
            known = _known(_differences(own[name], None if control is None else values[control][name]))
            found = _interval(known)
            if control is not None and problems is not None and name in problems[arm] and found is not None:
                found = _two_level(problems[control][name], problems[arm][name])
            cells.append(_cell(known, control is not None, found))
            apart += [found.low * found.high > 0] if found is not None else []
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    if control is not None and apart:
        lines += [
            "",
            f"{sum(apart)} of {len(apart)} intervals leave out 0; without any difference, about "
            f"{0.05 * len(apart):.1f} would by chance (the intervals are not corrected for their number).",
        ]
    return "\n".join(lines)


def _two_level(control: Sequence[Sequence[float]], own: Sequence[Sequence[float]]) -> Estimate:
    found: Interval = two_level_interval(np.array(control), np.array(own))
    return Estimate(found.difference, found.low, found.high)


def _differences(own: Sequence[float], other: Sequence[float] | None) -> list[float]:
    return list(own) if other is None else [a - b for a, b in zip(own, other, strict=True)]


def _known(values: Iterable[float]) -> list[float]:
    return [value for value in values if value == value]  # NaN: a seed without such a rate


def _interval(known: Sequence[float]) -> Estimate | None:
    return t_interval(known) if len(known) > 1 else None


def _cell(known: Sequence[float], signed: bool, found: Estimate | None) -> str:
    sign = "+" if signed else ""
    if not known:
        return "-"
    if found is None:
        return f"{known[0]:{sign}.3f}"
    return f"{found.value:{sign}.3f} [{found.low:{sign}.3f}, {found.high:{sign}.3f}]"


def kept_weights(iterations: Sequence[Iteration]) -> list[tuple[str, str]]:
    """(name of the iteration, role) for every role that an iteration did not train, so that it plays on as before."""
    return [
        (now.name, role)
        for before, now in pairwise(iterations)
        for role, model in now.models.items()
        if before.models.get(role) == model
    ]


def meeting_table(results: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: the matrices of win_rates, means over seeds, and in how many seeds the paper's pattern holds (section
    5.4): of the trained provers and critics, the last prover withstands the first critic best and the first prover
    withstands the last critic worst, as `resisted` (the paper's win) and as `stands`. A result's `kept_weights` (as in
    iterations.py) are players that were not trained, about whom the pattern says nothing. Below each matrix what all
    iterations together did to the prover and to the critics, seed by seed."""
    parts = []
    for rate in RATES:
        matrices = [np.array(matrix_of(result, rate), dtype=float) for result in results]
        stacked, result = np.stack(matrices), results[0]
        lines = [f"| {rate}: prover | {' | '.join(f'critics {name}' for name in result['critics'])} |"]
        lines.append("|---" * (len(result["critics"]) + 1) + "|")
        for row, name in enumerate(result["provers"]):
            means = [_known(stacked[:, row, column]) for column in range(len(result["critics"]))]
            cells = [f"{sum(known) / len(known):.1%}" if known else "-" for known in means]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        parts.append("\n".join(lines))
        first, last = stacked[:, 0, -1], stacked[:, -1, -1]
        gaps = [_known(gap) for gap in (last - first, first - stacked[:, 0, 0])]
        moved = [_cell(known, True, _interval(known)) for known in gaps]
        parts.append(
            f"Against the last critics, the last prover less the untrained one: {moved[0]}. The untrained prover, "
            f"against the last critics less against the untrained ones: {moved[1]}."
        )
        if rate in ("resisted", "stands"):
            reasons = [_unjudged(m, one.get("kept_weights", ())) for m, one in zip(matrices, results, strict=True)]
            judged = [has_pattern(m) for m, why in zip(matrices, reasons, strict=True) if not why]
            said = f"Pattern of section 5.4 in {rate}: {sum(judged)} of {len(judged)} seeds."
            parts.append(" ".join([said, *dict.fromkeys(f"Not judged: {why}." for why in reasons if why)]))
    return "\n\n".join(parts)


def _unjudged(matrix: np.ndarray, kept: Sequence[Sequence[str]]) -> str:
    """Why the pattern says nothing about a seed: who of prover and misleading critic, of whom it speaks, kept its
    weights in which iteration, and is thus the same player as one iteration before, or that a rate is missing."""
    same = [f"the {role} of iteration {name} kept its weights" for name, role in kept if role in RIVALS]
    missing = ["there is no revision of a right answer"] if np.isnan(matrix[1:, 1:]).any() else []
    return ", ".join(same + missing)


def has_pattern(matrix: np.ndarray) -> bool:
    """Of provers (rows) and critics (columns) from "start" to the last iteration: is the last prover's rate against
    the first trained critic the highest of the trained ones, and the first trained prover's against the last critic
    the lowest?"""
    trained = np.asarray(matrix, dtype=float)[1:, 1:]
    best, worst = trained[-1, 0], trained[0, -1]
    return bool(best > worst and best == trained.max() and worst == trained.min())
