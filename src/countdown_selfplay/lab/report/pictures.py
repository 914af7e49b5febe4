"""Charts as matplotlib figures: curves with bands, and heat maps. Equal figures give equal SVG text."""

from __future__ import annotations

import io
import itertools
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib import rc_params_from_file, rcParams, style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

WIDTH, HEIGHT, ROW = 400, 250, 14  # points; each row of the legend makes a picture higher
_NAMED = 8  # most curves that a legend names: as many as there are colours
_DISC = 110  # square points of a disc that stands for all proposals
_DARK = "@media (prefers-color-scheme: dark) {svg > g {filter: invert(.91) hue-rotate(180deg)}}"
_sheet = rc_params_from_file(Path(__file__).parent / "templates" / "pictures.mplstyle", use_default_template=False)
styled = style.context(dict(_sheet.items()), after_reset=True)


@dataclass(frozen=True)
class Curve:
    """One curve: `y` over `x` is drawn bold, `raw` thin below it, from `low` to `high` is shaded. NaN is a gap. `dots`
    are single points, as (x, y)."""

    label: str
    x: np.ndarray
    y: np.ndarray
    raw: np.ndarray | None = None
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    dots: tuple[Sequence[float], Sequence[float]] = ((), ())


@styled
def line_chart(
    title: str,
    curves: Sequence[Curve],
    *,
    y_range: Sequence[float] = (),
    band: tuple[float, float] | None = None,
    marks: Sequence[float] = (),
    x_label: str = "round",
    x_ticks: Sequence[float] | None = None,
) -> Figure:
    """A curve's place in `curves` is its colour; those without points are left out. `y_range`: values that are in view
    in any case. `band`: the target band, a y range. `marks`: the starved rounds. `x_ticks` make x logarithmic."""
    figure, axes = _axes(title, x_label)
    entries: list[tuple[Artist, str]] = []
    for i, curve in enumerate(curves):
        if curve.raw is not None:
            axes.plot(curve.x, curve.raw, color=f"C{i}", linewidth=1, alpha=0.35)
        if curve.low is not None and curve.high is not None:
            axes.fill_between(curve.x, curve.low, curve.high, color=f"C{i}", alpha=0.18, linewidth=0)
        gap = np.concatenate([[True], np.isnan(curve.y), [True]])
        alone = gap[:-2] & ~gap[1:-1] & gap[2:]  # between two gaps: no line begins or ends there
        axes.plot([*curve.x[alone], *curve.dots[0]], [*curve.y[alone], *curve.dots[1]], ".", color=f"C{i}")
        line = axes.plot(curve.x, curve.y, color=f"C{i}", linewidth=2)
        if not gap.all() or len(curve.dots[0]):
            entries.append((line[0], curve.label))
    if x_ticks is not None:
        axes.set_xscale("log")
        axes.set_xticks(x_ticks)
        axes.minorticks_off()
        axes.xaxis.set_major_formatter("{x:.4g}")
    axes.update_datalim([(axes.dataLim.x0, y) for y in y_range])
    axes.autoscale_view()
    axes.set_ylim(axes.get_ylim())  # what follows changes the range no more
    if band is not None:
        entries.append((axes.axhspan(*band, color="C2", alpha=0.2, linewidth=0), "target band"))
    if len(marks):
        ticks = axes.plot(marks, np.zeros(len(marks)), "|", color="C6", transform=axes.get_xaxis_transform(), zorder=1)
        entries.append((ticks[0], "starved round"))
    _add_legend(figure, axes, entries if len(entries) > 1 else [])
    return figure


@styled
def heat_map(title: str, starts: Sequence[float], end: float, shares_CB: np.ndarray) -> Figure:
    """Shares per bin over time: `starts` are the first rounds of the columns, `end` the round after the last one; bins
    go from 0 to 1 upwards. The deepest shade is the greatest share; a column of NaN is grey."""
    figure, axes = _axes(title, "round")
    axes.grid(False)
    none, grey = rcParams["figure.facecolor"], rcParams["grid.color"]
    shades = LinearSegmentedColormap.from_list("shares", [none, "C0"]).with_extremes(bad=grey)
    bins = shares_CB.shape[1]
    bin_edges = (np.arange(bins + 1) - 0.5) / (bins - 1)
    axes.pcolormesh([*starts, end], bin_edges, np.ma.masked_invalid(shares_CB.T), cmap=shades, vmin=0)
    entries = [(none, "0%"), ("C0", f"{np.nanmax(shares_CB):.0%} of the problems")]
    entries += [(grey, "no problem played")] if np.isnan(shares_CB).any() else []
    _add_legend(figure, axes, [(Patch(facecolor=color, edgecolor=grey), words) for color, words in entries])
    return figure


@styled
def rung_map(
    title: str,
    rungs: Sequence[int],
    starts: Sequence[float],
    end: float,
    rates_CR: np.ndarray,
    marks: Sequence[float],
    shares_MR: np.ndarray,
) -> Figure:
    """Rungs upwards over rounds: the share that is solved as shade, NaN grey; over it a disc at each of `marks`, whose
    area is the rung's share of the proposals."""
    figure, axes = _axes(title, "round")
    axes.grid(False)
    axes.set_ylabel("rung")
    none, grey = rcParams["figure.facecolor"], rcParams["grid.color"]
    shades = LinearSegmentedColormap.from_list("shares", [none, "C0"]).with_extremes(bad=grey)
    edges = np.arange(len(rungs) + 1) - 0.5
    axes.pcolormesh([*starts, end], edges, np.ma.masked_invalid(rates_CR.T), cmap=shades, vmin=0)
    axes.set_yticks(np.arange(len(rungs)), [str(rung) for rung in rungs])
    for x, shares_R in zip(marks, shares_MR, strict=True):
        some = np.flatnonzero(shares_R > 0)
        axes.scatter(
            [x] * len(some), some, _DISC * shares_R[some], color="C1", alpha=0.85, lw=0, zorder=3, clip_on=False
        )
    known = np.isfinite(rates_CR).any()
    entries: list[tuple[Artist, str]] = [(Patch(facecolor=none, edgecolor=grey), "0% solved")]
    entries += [(Patch(facecolor="C0", edgecolor=grey), f"{np.nanmax(rates_CR):.0%} solved")] if known else []
    entries += [(Patch(facecolor=grey, edgecolor=grey), "not measured")] if np.isnan(rates_CR).any() else []
    if shares_MR.any():
        disc = Line2D([], [], linestyle="", marker="o", color="C1", markersize=(_DISC / 2) ** 0.5)
        entries.append((disc, "half of the proposals"))
    _add_legend(figure, axes, entries)
    return figure


@styled
def mark_map(title: str, rows: Sequence[str], x_label: str, words: tuple[str, str]) -> Figure:
    """A row per text of "0" and "1", the first at the top, a cell per character; `words`: what 0 and 1 are."""
    figure, axes = _axes(title, x_label)
    axes.grid(False)
    cells = np.full((len(rows), max(map(len, rows))), np.nan)
    for cell, row in zip(cells, rows, strict=True):
        cell[: len(row)] = [float(mark) for mark in row]
    shades = LinearSegmentedColormap.from_list("marks", ["C6", "C2"])
    edges = np.arange(cells.shape[1] + 1) + 0.5, np.arange(len(rows) + 1) + 0.5
    axes.pcolormesh(*edges, np.ma.masked_invalid(cells), cmap=shades, vmin=0, vmax=1)
    axes.invert_yaxis()
    _add_legend(figure, axes, [(Patch(facecolor=c), word) for c, word in zip(("C6", "C2"), words, strict=True)])
    return figure


class Bars(NamedTuple):
    """Groups of bars side by side: a group per label, in it a bar for each (name, heights). `intervals`: (low, high)
    per label, drawn over the group."""

    title: str
    labels: Sequence[str]
    bars: Sequence[tuple[str, Sequence[float]]]
    x_label: str
    intervals: Sequence[tuple[float, float]] = ()


@styled
def bar_chart(title: str, labels: Sequence[str], bars: Sequence[tuple[str, Sequence[float]]], x_label: str) -> Figure:
    """See Bars."""
    figure, axes = _axes(title, x_label)
    _add_bars(axes, Bars(title, labels, bars, x_label))
    _add_legend(figure, axes, [(Patch(facecolor=f"C{i}"), name) for i, (name, _) in enumerate(bars)])
    return figure


@styled
def bar_grid(panels: Sequence[Bars]) -> Figure:
    """Bar charts, two in a row (four would be too small to read on a phone), each with its legend below it."""
    rows, columns = -(-len(panels) // 2), min(2, len(panels))
    figure = Figure(figsize=(WIDTH * columns / 72, (HEIGHT + 2 * ROW) * rows / 72), layout="constrained")
    places = figure.subplots(rows, columns, squeeze=False).flat
    for axes, panel in itertools.zip_longest(places, panels):
        if panel is None:
            axes.remove()
            continue
        _dress(axes, panel.title, panel.x_label)
        axes.set_title(panel.title, x=0, y=1.03)
        _add_bars(axes, panel)
        entries = [Patch(facecolor=f"C{i}") for i in range(len(panel.bars))], [name for name, _ in panel.bars]
        axes.legend(*entries, loc="upper left", bbox_to_anchor=(0, -0.2), ncols=len(panel.bars))
    return figure


def _add_bars(axes: Axes, panel: Bars) -> None:
    width = 0.8 / len(panel.bars)
    at = np.arange(len(panel.labels))
    for i, (_, heights) in enumerate(panel.bars):
        axes.bar(at + (i - (len(panel.bars) - 1) / 2) * width, heights, width, color=f"C{i}")
    for x, (low, high) in zip(at, panel.intervals, strict=False):
        axes.vlines(x, low, high, color=rcParams["text.color"], linewidth=1)
    axes.set_xticks(at, panel.labels)


@styled
def matrix_map(title: str, rows: Sequence[str], columns: Sequence[str], shares: np.ndarray, x: str, y: str) -> Figure:
    """Shares, shape (rows, columns), as shades from 0 to 1 with their percentage written in; NaN is grey. `x`, `y`:
    what columns and rows are."""
    figure, axes = _axes(title, x)
    axes.grid(False)
    none, grey = rcParams["figure.facecolor"], rcParams["grid.color"]
    shades = LinearSegmentedColormap.from_list("shares", [none, "C0"]).with_extremes(bad=grey)
    axes.pcolormesh(np.ma.masked_invalid(shares), cmap=shades, vmin=0, vmax=1)
    axes.set_xticks(np.arange(len(columns)) + 0.5, columns)
    axes.set_yticks(np.arange(len(rows)) + 0.5, rows)
    axes.set_ylabel(y)
    axes.invert_yaxis()
    for i, j in np.argwhere(np.isfinite(shares)):
        color = none if shares[i, j] > 0.6 else rcParams["text.color"]  # on the deep shades and on the pale ones
        axes.text(j + 0.5, i + 0.5, f"{shares[i, j]:.1%}", ha="center", va="center", color=color)
    _add_legend(figure, axes, [])
    return figure


@styled
def svg(figure: Figure) -> str:
    """The figure as an SVG element, good as a file too. Its colours are for a light page; a dark one turns them."""
    text = io.StringIO()
    with warnings.catch_warnings():  # names in a script that the measuring font lacks: the reader's fonts have it
        warnings.simplefilter("ignore", UserWarning)
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    drawn = re.sub(r' id="[^"_]+_\d+"', "", text.getvalue())  # counted in each figure, hence not unique in a page
    return drawn[drawn.index("<svg") :].replace("</style>", f"{_DARK}</style>", 1)


def _axes(title: str, x_label: str) -> tuple[Figure, Axes]:
    figure = Figure()
    axes = figure.subplots()
    _dress(axes, title, x_label)
    return figure, axes


def _dress(axes: Axes, title: str, x_label: str) -> None:
    axes.set_title(title, x=-0.12, y=1.03)  # to look for a free place takes as long as all the rest
    axes.set_xlabel(x_label)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter("{x:.4g}")
    axes.yaxis.set_major_formatter("{x:.4g}")


def _add_legend(figure: Figure, axes: Axes, entries: Sequence[tuple[Artist, str]]) -> None:
    """Below the plot, in as many columns as the longest label leaves room for."""
    left = len(entries) - _NAMED
    if left > 1:
        entries = [*entries[: _NAMED - 1], (Line2D([], [], linestyle=""), f"and {left + 1} more")]
    labels = [label if len(label) <= 40 else label[:39] + "…" for _, label in entries]
    columns = max(1, 60 // (6 + max(map(len, labels), default=0)))
    legend = -(-len(labels) // columns) * ROW
    height = HEIGHT + legend
    figure.set_size_inches(WIDTH / 72, height / 72)
    figure.subplots_adjust(left=50 / WIDTH, right=1 - 12 / WIDTH, top=1 - 26 / height, bottom=(42 + legend) / height)
    if entries:
        figure.legend([artist for artist, _ in entries], labels, loc="lower left", ncols=columns)
