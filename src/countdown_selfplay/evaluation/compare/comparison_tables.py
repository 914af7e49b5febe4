"""A comparison as Markdown, LaTeX, terminal rows and a figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...statistics.bootstrap import Estimate, Interval
from .comparison import Comparison

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        **{mark: rf"\{mark}" for mark in "&%$#_{}"},
    }
)


def rows_of(found: Comparison) -> list[tuple[str, ...]]:
    """A header and one row per difference, as plain text."""
    head = ["arm", "pass@k", found.arms[0], "arm's", "difference", "95% interval"]
    head += [f"Bonferroni ({len(found.differences)})", "p", "p (Holm)"]
    rows = [tuple(head)]
    for d in found.differences:
        cells = [d.arm, str(d.k), _value(found.values[found.arms[0], d.k]), _value(found.values[d.arm, d.k])]
        cells += [f"{d.percentile.difference:+.4f}", _ends(d.percentile)]
        cells += [_ends(d.bonferroni), _p(d.p, found.resamples), _p(d.p_holm, found.resamples)]
        rows.append(tuple(cells))
    return rows


def markdown(rows: Sequence[tuple[str, ...]], notes: Sequence[str]) -> str:
    """A table with notes below it; the first row is its header."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:], "", *(f"- {note}" for note in notes)]) + "\n"


def latex(found: Comparison) -> str:
    """A `tabular` for the package booktabs; the notes are comments above it."""
    head, *rows = [[cell.translate(_LATEX).replace("–", "--") for cell in row] for row in rows_of(found)]
    lines = [f"% {note}" for note in found.notes()]
    lines += [rf"\begin{{tabular}}{{lr{'l' * (len(head) - 2)}}}", r"\toprule", " & ".join(head) + r" \\", r"\midrule"]
    for i, row in enumerate(rows):
        if i and rows[i - 1][0] != row[0]:
            lines.append(r"\addlinespace")
        lines.append(" & ".join(row) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def figure(found: Comparison) -> Figure:
    """pass@k of every arm against k (logarithmic), each with its own 95% interval. The intervals are not paired: two
    that overlap may still differ."""
    from ..report.pictures import Curve, line_chart

    curves = []
    for arm in found.arms:
        values = [found.values[arm, k] for k in found.ks]
        y, low, high = (np.array([getattr(v, name) for v in values]) for name in ("value", "low", "high"))
        curves.append(Curve(arm, np.array(found.ks), y, low=low, high=high))
    return line_chart("pass@k with 95% intervals", curves, y_range=(0, 1), x_label="k", x_ticks=found.ks)


def _value(value: Estimate) -> str:
    return f"{value.value:.4f}"


def _ends(interval: Interval) -> str:
    return f"[{interval.low:+.4f}, {interval.high:+.4f}]"


def _p(p: float, resamples: int) -> str:
    """Not more digits than the resamples give."""
    least = 2 / (resamples + 1)
    return f"<{10 ** math.ceil(math.log10(least)):g}" if p <= least * 1.001 else f"{p:.4f}"
