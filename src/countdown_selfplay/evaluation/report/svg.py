"""Small charts as SVG text: lines with an optional band, and heat maps. Colours are CSS variables (light, dark)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT = 400, 250  # units of the view box: about CSS pixels on a phone, where a chart is as wide as the page
_LEFT, _RIGHT, _BOTTOM, _TOP = 46, 12, 36, 30
_CHAR = 6.1  # mean width of a character of the legend

Segment = list[tuple[float, float]]
Spread = list[tuple[float, float, float]]
"""(x, low, high) along a curve."""

VARIABLES = """
  --page: #ffffff; --card: #f7f7f8; --ink: #1b1c1f; --soft: #62656d; --line: #dcdde1;
  --accent: #0b62b0; --bad: #b3261e; --good: #1c7a3d; --band: #2f9e6333; --heat: #0b62b0;
  --c0: #0b62b0; --c1: #c2510a; --c2: #1c7a3d;
  --c3: #8a3ca8; --c4: #a87900; --c5: #00838f; --c6: #b3261e; --c7: #62656d;
"""
DARK_VARIABLES = """
  --page: #131417; --card: #1c1e22; --ink: #e9eaed; --soft: #a0a4ad; --line: #34373e;
  --accent: #6db3f2; --bad: #ff8a80; --good: #6fcf97; --band: #6fcf9730; --heat: #6db3f2;
  --c0: #6db3f2; --c1: #ff9f59; --c2: #6fcf97;
  --c3: #d49bea; --c4: #e5c04b; --c5: #5fd0d8; --c6: #ff8a80; --c7: #a0a4ad;
"""
CHART_STYLE = """
.chart text { font: 11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--soft); }
.chart .title { font-size: 13px; font-weight: 600; fill: var(--ink); }
.chart .grid { stroke: var(--line); stroke-width: 1; }
.chart .axis { stroke: var(--soft); stroke-width: 1; }
.chart .band { fill: var(--band); }
.chart path { fill: none; stroke-linecap: round; stroke-linejoin: round; }
.chart .spread { stroke: none; opacity: .18; }
.chart .raw { stroke-width: 1.1; opacity: .35; }
.chart .mean { stroke-width: 2; }
.chart .dot { stroke-width: 4; }
.chart .mark { stroke: var(--bad); stroke-width: 1; opacity: .6; }
.chart .cell { fill: var(--heat); }
.chart .none { fill: var(--line); }
.chart .frame { fill: none; stroke: var(--line); }
"""


CHART_STYLE += "".join(f".chart .fill{i} {{ fill: var(--c{i}); }}\n" for i in range(8))


@dataclass(frozen=True)
class Line:
    """One curve. mean: what is drawn bold; raw: drawn thin below it; spread: shaded around it. Each a list of
    segments, with no line across a gap. dots: single points."""

    label: str
    mean: list[Segment]
    raw: list[Segment] = field(default_factory=list)
    color: int = 0
    spread: list[Spread] = field(default_factory=list)
    dots: Segment = field(default_factory=list)

    @property
    def points(self) -> list[tuple[float, float]]:
        """All that must be in view."""
        edges = [(x, y) for part in self.spread for x, low, high in part for y in (low, high)]
        return [point for segment in (*self.mean, *self.raw, self.dots) for point in segment] + edges


def line_chart(
    title: str,
    lines: Sequence[Line],
    *,
    y_range: tuple[float, float] | None = None,
    band: tuple[float, float] | None = None,
    band_label: str = "target band",
    marks: Sequence[float] = (),
    marks_label: str = "starved round",
    x_label: str = "round",
    x_ticks: Sequence[tuple[float, str]] | None = None,
) -> str:
    """An SVG element. `band`: shaded y range. `marks`: x values ticked at the bottom in the warning colour. `x_ticks`:
    positions and their labels, for an axis whose x is not what it shows (a logarithm).

    `y_range` is the least range that is shown; values beyond widen it. Lines without points are left out; the caller
    passes at least one with points.
    """
    lines = [line for line in lines if line.points]
    points = [point for line in lines for point in line.points]
    lowest = min([y for _, y in points] + list((y_range or ())[:1]))
    highest = max([y for _, y in points] + list((y_range or ())[1:]))
    y_ticks = ticks(lowest, highest)
    x_low, x_high = min(x for x, _ in points), max(x for x, _ in points)
    x_low, x_high = (x_low - 0.5, x_high + 0.5) if x_low == x_high else (x_low, x_high)
    y_low, y_high = min(y_ticks[0], lowest), max(y_ticks[-1], highest)
    named = x_ticks or [(x, number(x)) for x in ticks(x_low, x_high, whole=True)]
    legend, top = _legend(lines, band_label if band else None, marks_label if marks else None)
    frame = _Frame(x_low, x_high, y_low, y_high, top)
    parts = [
        _opening(title),
        *legend,
        *frame.grid([(x, t) for x, t in named if x_low <= x <= x_high], y_ticks, x_label),
    ]
    if band:
        low, high = max(band[0], y_low), min(band[1], y_high)
        if low < high:
            parts.append(
                f'<rect class="band" x="{_LEFT}" y="{_n(frame.y(high))}" width="{WIDTH - _LEFT - _RIGHT}" '
                f'height="{_n(frame.y(low) - frame.y(high))}"/>'
            )
    if marks:
        ends = "".join(f"M{_n(frame.x(x))} {HEIGHT - _BOTTOM}v-7" for x in marks if x_low <= x <= x_high)
        parts.append(f'<path class="mark" d="{ends}"/>')
    for line in lines:
        for part in line.spread:
            outline = [(x, high) for x, _, high in part] + [(x, low) for x, low, _ in reversed(part)]
            parts.append(f'<path class="spread fill{line.color % 8}" d="{frame.path(outline)}Z"/>')
    for kind in ("raw", "mean", "dot"):
        for line in lines:
            if kind == "dot":
                segments = [segment for segment in line.mean if len(segment) == 1] + [[dot] for dot in line.dots]
            else:
                segments = [segment for segment in getattr(line, kind) if len(segment) > 1]
            if segments:
                d = "".join(map(frame.path, segments))
                parts.append(f'<path class="{kind}" stroke="var(--c{line.color % 8})" d="{d}"/>')
    return "".join([*parts, "</svg>"])


def heat_map(title: str, columns: Sequence[tuple[float, Sequence[float] | None]], x_end: float) -> str:
    """Shares per bin over time. `columns`: (first round, shares from the bottom bin to the top one, or None where
    there is nothing to show); `x_end`: the round after the last column. Darker is more; the deepest shade is the
    greatest share."""
    bins = max(len(shares) for _, shares in columns if shares is not None)
    highest = max(max(shares) for _, shares in columns if shares is not None) or 1.0
    top = _TOP + 16
    frame = _Frame(columns[0][0], x_end, 0, bins, top)
    parts = [_opening(title)]
    starts = [start for start, _ in columns] + [x_end]
    for (_, shares), low, high in zip(columns, starts, starts[1:], strict=False):
        x, width = frame.x(low), frame.x(high) - frame.x(low)
        if shares is None:
            parts.append(f'<rect class="none" {_box(x, frame.y(bins), width, frame.y(0) - frame.y(bins))}/>')
            continue
        for i, share in enumerate(shares):
            if share > 0:
                box = _box(x, frame.y(i + 1), width, frame.y(i) - frame.y(i + 1))
                parts.append(f'<rect class="cell" fill-opacity="{share / highest:.3f}" {box}/>')
    box = _box(_LEFT, top, WIDTH - _LEFT - _RIGHT, HEIGHT - _BOTTOM - top)
    parts.append(f'<rect class="frame" {box}/>')
    for i in range(0, bins, 2):
        label = number(i / (bins - 1))
        parts.append(f'<text x="{_LEFT - 6}" y="{_n(frame.y(i + 0.5) + 4)}" text-anchor="end">{label}</text>')
    rounds = [x for x in ticks(columns[0][0], x_end, whole=True) if columns[0][0] <= x <= x_end]
    parts += frame.x_axis([(x, number(x)) for x in rounds], "round")
    parts.append(f'<rect class="frame" {_box(_LEFT, _TOP - 2, 10, 10)}/>')
    parts.append(f'<text x="{_LEFT + 14}" y="{_TOP + 7}">0%</text>')
    parts.append(f'<rect class="cell" {_box(_LEFT + 44, _TOP - 2, 10, 10)}/>')
    parts.append(f'<text x="{_LEFT + 58}" y="{_TOP + 7}">{highest:.0%} of the problems</text>')
    if any(shares is None for _, shares in columns):
        parts.append(f'<rect class="none" {_box(_LEFT + 172, _TOP - 2, 10, 10)}/>')
        parts.append(f'<text x="{_LEFT + 186}" y="{_TOP + 7}">no problem played</text>')
    return "".join([*parts, "</svg>"])


def standalone(svg: str) -> str:
    """The chart as a file of its own, with its style inside."""
    style = (
        f"<style>svg {{ {VARIABLES} background: var(--page); }}"
        f"@media (prefers-color-scheme: dark) {{ svg {{ {DARK_VARIABLES} }} }}{CHART_STYLE}</style>"
    )
    head, _, rest = svg.partition(">")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head} width="{WIDTH * 2}" height="{HEIGHT * 2}">{style}{rest}\n'


def ticks(low: float, high: float, count: int = 5, whole: bool = False) -> list[float]:
    """About `count` round numbers that enclose [low, high], at a step of 1, 2 or 5 times a power of ten."""
    if high <= low:
        pad = abs(low) * 0.5 or 0.5
        low, high = low - pad, high + pad
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    if whole:
        step = max(1.0, step)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def number(value: float) -> str:
    """A short label: 0.25, 1200, 3e-05."""
    if value == 0:
        return "0"
    if abs(value) >= 100_000 or abs(value) < 0.001:
        return f"{value:.3g}"
    return f"{value:.4g}"


class _Frame:
    """From values to positions in the view box."""

    def __init__(self, x_low: float, x_high: float, y_low: float, y_high: float, top: float) -> None:
        self.x_low, self.x_scale = x_low, (WIDTH - _LEFT - _RIGHT) / (x_high - x_low)
        self.y_low, self.y_scale = y_low, (HEIGHT - _BOTTOM - top) / (y_high - y_low)

    def x(self, value: float) -> float:
        return _LEFT + (value - self.x_low) * self.x_scale

    def y(self, value: float) -> float:
        return HEIGHT - _BOTTOM - (value - self.y_low) * self.y_scale

    def path(self, segment: Segment) -> str:
        """A polyline; a single point becomes a dot (a line of length 0 with round ends)."""
        steps = [f"{_n(self.x(x))} {_n(self.y(y))}" for x, y in segment]
        return f"M{steps[0]}h0" if len(steps) == 1 else "M" + "L".join(steps)

    def grid(self, xs: Sequence[tuple[float, str]], ys: Sequence[float], x_label: str) -> list[str]:
        parts = []
        for y in ys:
            at = _n(self.y(y))
            parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at}" y2="{at}"/>')
            parts.append(f'<text x="{_LEFT - 6}" y="{_n(self.y(y) + 4)}" text-anchor="end">{number(y)}</text>')
        return parts + self.x_axis(xs, x_label)

    def x_axis(self, xs: Sequence[tuple[float, str]], label: str) -> list[str]:
        base = HEIGHT - _BOTTOM
        parts = [f'<line class="axis" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{base}" y2="{base}"/>']
        for x, words in xs:
            anchor = "end" if self.x(x) > WIDTH - _RIGHT - 8 else "middle"
            parts.append(f'<text x="{_n(self.x(x))}" y="{base + 15}" text-anchor="{anchor}">{escape(words)}</text>')
        parts.append(
            f'<text x="{(WIDTH + _LEFT - _RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle">{escape(label)}</text>'
        )
        return parts


def _opening(title: str) -> str:
    safe = escape(title)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{safe}"><title>{safe}</title><text class="title" x="4" y="15">{safe}</text>'
    )


def _legend(lines: Sequence[Line], band: str | None, marks: str | None) -> tuple[list[str], float]:
    """Entries in rows below the title, and where the plot begins. A single plain line needs none."""
    entries = [
        (line.label, f'<path class="mean" stroke="var(--c{line.color % 8})" d="M{{x}} {{y}}h14"/>') for line in lines
    ]
    if len(lines) == 1 and not band and not marks:
        entries = []
    if band:
        entries.append((band, '<rect class="band" x="{x}" y="{top}" width="14" height="8"/>'))
    if marks:
        entries.append((marks, '<path class="mark" d="M{x7} {bottom}v-8"/>'))
    parts: list[str] = []
    x, y = float(_LEFT), 30.0
    for label, swatch in entries:
        label = label if len(label) <= 40 else label[:39] + "…"
        width = 20 + len(label) * _CHAR + 10
        if x > _LEFT and x + width > WIDTH:
            x, y = float(_LEFT), y + 14
        parts.append(swatch.format(x=_n(x), x7=_n(x + 7), y=_n(y), top=_n(y - 4), bottom=_n(y + 4)))
        parts.append(f'<text x="{_n(x + 18)}" y="{_n(y + 4)}">{escape(label)}</text>')
        x += width
    return parts, y + 12 if entries else 26.0


def _box(x: float, y: float, width: float, height: float) -> str:
    return f'x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"'


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
