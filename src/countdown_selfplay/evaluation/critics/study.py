"""Tables of a study of the Critic-Discernment Game: arms over training seeds, and the paper's pattern of win rates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...statistics.seeds import t_interval
from .win_rates import RATES, matrix_of


def _value(found: Mapping[str, Any] | None, name: str = "value") -> float:
    return float("nan") if found is None else float(found[name])


FIGURES: dict[str, Callable[[Mapping[str, Any]], float]] = {
    "pass@1": lambda f: _value(f["pass@1"]),
    "majority@8": lambda f: _value(f["majority@8"]),
    "error detection F1": lambda f: _value(f["error_detection"]["f1"]),
    "accuracy": lambda f: _value(f["error_detection"]["accuracy"]),
    "right -> wrong": lambda f: _value(f["self_correction"]["right_to_wrong"]),
    "wrong -> right": lambda f: _value(f["self_correction"]["wrong_to_right"]),
    "change": lambda f: _value(f["self_correction"]["change"], "difference"),
}
"""Name -> where it stands in what prover_figures found, with self_correction beside it; NaN: there is no such rate."""
Values = Mapping[str, Mapping[str, Sequence[float]]]
"""arm -> figure -> a value per training seed."""


def arm_table(values: Values, control: str | None) -> str:
    """Markdown: each figure's mean over seeds with Student's 95% interval (one seed: the value alone), or, seed by
    seed, its difference to the arm `control`, in bold where the interval leaves out 0. Arms that have no `control`
    beside them give no rows."""
    names = list(next(iter(values.values())))
    lines = [f"| arm | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for arm, own in values.items():
        if arm == control or (control is not None and control not in values):
            continue
        cells = [
            _cell(_differences(own[name], None if control is None else values[control][name]), control is not None)
            for name in names
        ]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _differences(own: Sequence[float], other: Sequence[float] | None) -> list[float]:
    return list(own) if other is None else [a - b for a, b in zip(own, other, strict=True)]


def _cell(values: Sequence[float], signed: bool) -> str:
    sign = "+" if signed else ""
    values = [value for value in values if value == value]  # NaN: a seed without such a rate
    if not values:
        return "-"
    if len(values) < 2:
        return f"{values[0]:{sign}.3f}"
    found = t_interval(values)
    mean = f"{found.value:{sign}.3f}"
    if signed and found.low * found.high > 0:
        mean = f"**{mean}**"
    return f"{mean} [{found.low:{sign}.3f}, {found.high:{sign}.3f}]"


def meeting_table(results: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: the matrices of win_rates, means over seeds, and in how many seeds the paper's pattern holds (section
    5.4): of the trained provers and critics, the last prover withstands the first critic best and the first prover
    withstands the last critic worst, as `resisted` (the paper's win) and as `stands`."""
    parts = []
    for rate in RATES:
        matrices = [np.array(matrix_of(result, rate), dtype=float) for result in results]
        mean, result = np.nanmean(matrices, axis=0), results[0]
        lines = [f"| {rate}: prover | {' | '.join(f'critics {name}' for name in result['critics'])} |"]
        lines.append("|---" * (len(result["critics"]) + 1) + "|")
        for name, row in zip(result["provers"], mean, strict=True):
            lines.append(f"| {name} | {' | '.join(f'{value:.1%}' for value in row)} |")
        parts.append("\n".join(lines))
        if rate in ("resisted", "stands"):
            parts.append(
                f"Pattern of section 5.4 in {rate}: {sum(map(has_pattern, matrices))} of {len(matrices)} seeds."
            )
    return "\n\n".join(parts)


def has_pattern(matrix: np.ndarray) -> bool:
    """Of provers (rows) and critics (columns) from "start" to the last iteration: is the last prover's rate against
    the first trained critic the highest of the trained ones, and the first trained prover's against the last critic
    the lowest?"""
    trained = np.asarray(matrix, dtype=float)[1:, 1:]
    best, worst = trained[-1, 0], trained[0, -1]
    return bool(best > worst and best == np.nanmax(trained) and worst == np.nanmin(trained))
