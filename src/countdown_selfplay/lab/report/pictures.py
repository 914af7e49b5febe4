"""Charts as matplotlib figures: curves with bands, and heat maps. Equal figures give equal SVG text."""

import io
import itertools
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

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
    """Curve: `y` over `x` is drawn bold, `raw` thin below it, from `low` to `high` is shaded. NaN is a gap. `dots` are
    single points, as (x, y)."""

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
    """Plot curves, colours by index; those without points are left out. `y_range`: values always in view. `band`: the
    target band, a y range. `marks`: the starved rounds. `x_ticks` make x logarithmic."""
    figure = Figure()
    axes = _dress(figure.subplots(), title, x_label)
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
    axes.set_ylim(axes.get_ylim())  # later drawing does not change the range
    if band is not None:
        entries.append((axes.axhspan(*band, color="C2", alpha=0.2, linewidth=0), "target band"))
    if len(marks):
        ticks = axes.plot(marks, np.zeros(len(marks)), "|", color="C6", transform=axes.get_xaxis_transform(), zorder=1)
        entries.append((ticks[0], "starved round"))
    _add_legend(figure, axes, entries if len(entries) > 1 else [])
    return figure


@styled
def cells(
    title: str,
    x_edges: Sequence[float] | np.ndarray,
    y_edges: Sequence[float] | np.ndarray,
    values_YX: np.ndarray,
    legend: Sequence[tuple[str, str]],
    *,
    labels: tuple[str, str] = ("round", ""),
    names: tuple[Sequence[Any], Sequence[Any]] = ((), ()),
    colors: tuple[str, str] = ("figure.facecolor", "C0"),
    missing: str = "grid.color",
    most: float | None = 1,
    inverted: bool = False,
    written: bool = False,
    discs: Sequence[tuple[float, np.ndarray]] = (),
) -> Figure:
    """Plot values as shades from 0 to `most` (None: the largest) between two `colors`, NaN in `missing`. `legend`:
    pairs of colour and words. `names`: of columns and rows. `written`: with percentages in the cells. `discs`: x and
    the shares of the rows, which are their areas."""
    figure = Figure()
    axes = _dress(figure.subplots(), title, labels[0])
    axes.grid(False)
    axes.set_ylabel(labels[1])
    between = LinearSegmentedColormap.from_list("shades", [_color(name) for name in colors])
    shades = between.with_extremes(bad=_color(missing))
    axes.pcolormesh(x_edges, y_edges, np.ma.masked_invalid(values_YX), cmap=shades, vmin=0, vmax=most)
    for axis, edges, words in ((axes.xaxis, x_edges, names[0]), (axes.yaxis, y_edges, names[1])):
        if words:
            axis.set_ticks(np.array(edges[:-1]) + 0.5, [str(word) for word in words])
    for i, j in np.argwhere(np.isfinite(values_YX)) if written else ():
        color = _color("figure.facecolor" if values_YX[i, j] > 0.6 else "text.color")  # on deep shades, on pale ones
        axes.text(j + 0.5, i + 0.5, f"{values_YX[i, j]:.1%}", ha="center", va="center", color=color)
    edge, entries = None if missing == "none" else _color("grid.color"), list[tuple[Artist, str]]()
    entries += [(Patch(facecolor=_color(color), edgecolor=edge), words) for color, words in legend]
    for x, shares_Y in discs:
        some = np.flatnonzero(shares_Y > 0)
        area = _DISC * shares_Y[some]
        axes.scatter([x] * len(some), some, area, color="C1", alpha=0.85, lw=0, zorder=3, clip_on=False)
    if any(shares_Y.any() for _, shares_Y in discs):
        disc = Line2D([], [], linestyle="", marker="o", color="C1", markersize=(_DISC / 2) ** 0.5)
        entries.append((disc, "half of the proposals"))
    if inverted:
        axes.invert_yaxis()
    _add_legend(figure, axes, entries)
    return figure


def shade_words(values: np.ndarray, most: str, none: str, missing: str) -> list[tuple[str, str]]:
    """Return the legend of shares: the palest, the deepest and the grey shade."""
    legend = [("figure.facecolor", none)]
    legend += [("C0", f"{np.nanmax(values):.0%} {most}")] if np.isfinite(values).any() else []
    return [*legend, *([("grid.color", missing)] if np.isnan(values).any() else [])]


def _color(name: str) -> str:
    values: Any = rcParams
    return str(values.get(name, name))


class Bars(NamedTuple):
    """Groups of adjacent bars: per label a bar for each (name, heights). `intervals`: (low, high) per label."""

    title: str
    labels: Sequence[str]
    bars: Sequence[tuple[str, Sequence[float]]]
    x_label: str
    intervals: Sequence[tuple[float, float]] = ()


@styled
def bar_grid(panels: Sequence[Bars]) -> Figure:
    """Plot bar charts, two in a row (four would be too small on a phone), each with its legend below it."""
    rows, columns = -(-len(panels) // 2), min(2, len(panels))
    figure = Figure(figsize=(WIDTH * columns / 72, (HEIGHT + 2 * ROW) * rows / 72), layout="constrained")
    places = figure.subplots(rows, columns, squeeze=False).flat
    for axes, panel in itertools.zip_longest(places, panels):
        if panel is None:
            axes.remove()
            continue
        _dress(axes, panel.title, panel.x_label)
        axes.set_title(panel.title, x=0, y=1.03)
        width, at = 0.8 / len(panel.bars), np.arange(len(panel.labels))
        for i, (name, heights) in enumerate(panel.bars):
            axes.bar(at + (i - (len(panel.bars) - 1) / 2) * width, heights, width, color=f"C{i}", label=name)
        for x, (low, high) in zip(at, panel.intervals, strict=False):
            axes.vlines(x, low, high, color=rcParams["text.color"], linewidth=1)
        axes.set_xticks(at, panel.labels)
        axes.legend(loc="upper left", bbox_to_anchor=(0, -0.2), ncols=len(panel.bars))
    return figure


@styled
def svg(figure: Figure) -> str:
    """Return the figure as an SVG element, valid as a file too, whose colours a dark page inverts."""
    text = io.StringIO()
    with warnings.catch_warnings():  # names in a script that the measuring font lacks: the reader's fonts have it
        warnings.simplefilter("ignore", UserWarning)
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    drawn = re.sub(r' id="[^"_]+_\d+"', "", text.getvalue())  # counted in each figure, hence not unique in a page
    return drawn[drawn.index("<svg") :].replace("</style>", f"{_DARK}</style>", 1)


def _dress(axes: Axes, title: str, x_label: str) -> Axes:
    axes.set_title(title, x=-0.12, y=1.03)  # finding a free place takes as long as all the rest
    axes.set_xlabel(x_label)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter("{x:.4g}")
    axes.yaxis.set_major_formatter("{x:.4g}")
    return axes


def _add_legend(figure: Figure, axes: Axes, entries: Sequence[tuple[Artist, str]]) -> None:
    """Add the legend below the plot, in as many columns as the longest label allows."""
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
