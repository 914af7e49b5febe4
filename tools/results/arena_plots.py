"""The three plots of docs/results/arena.md, as SVG written by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from .plot import COLOURS, LEFT, STEP, TOP, WIDTH, axes, framed, interval, legend
from .readers import Row

NARROW = 480
"""Width of the pictures without labels of pairs."""

BEST, REFERENCE = "#111827", "#9ca3af"
HALVES = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Half widths of a panel of the forest, of which the first that holds all intervals is taken."""
LIMIT = 0.1
"""The frontier is the highest size with at least this pass@1."""
SHADES = ("#f3f4f6", "#d1d5db", "#6ee7b7", "#10b981", "#0b6e4f")
METRICS = ("pass@1", "pass@16")
EDGES = (0.005, 0.05, 0.125, 0.25, 0.5)
"""Least share of each shade."""


def drawn(found: Mapping[str, Row]) -> dict[str, str]:
    """File name under docs/assets/ -> its text."""
    tracks = list(found.values())
    return {
        "arena_forest.svg": forest(tracks),
        "arena_curves.svg": curves(tracks),
        "arena_proposed.svg": proposed(tracks),
    }


def text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{escape(words)}</text>'


def forest(tracks: Sequence[Row]) -> str:
    """Contestants less the best control, a block a track; pass@1 at the left, pass@16 at the right."""
    rows = [row for track in tracks for row in track["against_best"]]
    reach = [[abs(row[end]) for row in rows if row["metric"] == k for end in ("low", "high")] for k in METRICS]
    ranges = [next(half for half in HALVES if half >= max(own, default=0.0)) for own in reach]
    parts, y = [], float(TOP)
    for track in tracks:
        effect = {row["contestant"]: row["difference"] for row in track["against_best"] if row["metric"] == METRICS[0]}
        y += STEP + 5
        parts.append(text(4, y + 4, f"{track['track']}: less {track['best_control']}", ' font-weight="bold"'))
        for name in sorted(effect, key=lambda one: -effect[one]):
            y += STEP
            parts.append(text(LEFT, y + 4, name, ' text-anchor="end"'))
            own = [row for row in track["against_best"] if row["contestant"] == name and row["metric"] in METRICS]
            parts += [interval(row, METRICS.index(row["metric"]), y, ranges) for row in own]
        if unranked := ", ".join(row["contestant"] for row in track["rows"] if not row["ranked"]):
            y += STEP
            parts.append(text(LEFT, y + 4, f"not ranked: {unranked}", ' text-anchor="end" fill="#6b7280"'))
    y += STEP
    title = "Each contestant less the best control: differences with 95% intervals"
    return framed(title, WIDTH, int(y) + 8, [*parts, *axes(ranges, int(y)), *legend()])


def colour(row: Row, track: Row) -> str:
    """That of the verdict in pass@1; black for the best control, light grey for a row that is not ranked."""
    if not row["ranked"]:
        return REFERENCE
    own = [one for one in track["against_best"] if (one["contestant"], one["metric"]) == (row["contestant"], "pass@1")]
    return COLOURS[own[0]["verdict"]] if own else BEST


def until(points: Sequence[Row], most: float) -> list[Row]:
    """(answers, value, low, high) of the points up to `most` answers; a curve that goes further ends there, between
    two points."""
    names = ("value", "low", "high")
    flat = [{"answers": p["answers"], **{n: p["pass@1"].get(n, p["pass@1"]["value"]) for n in names}} for p in points]
    kept = [point for point in flat if point["answers"] <= most]
    if kept and len(kept) < len(flat) and kept[-1]["answers"] < most:
        a, b = kept[-1], flat[len(kept)]
        share = (most - a["answers"]) / (b["answers"] - a["answers"])
        kept.append({name: a[name] + share * (b[name] - a[name]) for name in a})
    return kept


def spread(places: Sequence[float], gap: float) -> list[float]:
    """The places in their order, moved down until neighbours are `gap` apart."""
    found: list[float] = []
    for place in places:
        found.append(max(place, found[-1] + gap) if found else place)
    return found


def curves(tracks: Sequence[Row]) -> str:
    """pass@1 over the prover's answers, a panel a track, the names at the ends."""
    left, wide, high, gap = 34, 330, 190, 40
    parts: list[str] = []
    for index, track in enumerate(tracks):
        top = 28 + index * (high + gap)
        most = track["facts"]["answers"]
        lines = {row["contestant"]: until(row["curve"], most) for row in track["rows"]}
        ceiling = max(point["high"] for own in lines.values() for point in own) * 1.04

        def at(point: Row, name: str, top: float = top, most: float = most, ceiling: float = ceiling) -> str:
            x = left + point["answers"] / most * wide
            return f"{x:.1f} {top + high * (1 - max(point[name], 0.0) / ceiling):.1f}"

        parts.append(text(4, top - 12, f"{track['track']}: pass@1 over answers", ' font-weight="bold"'))
        parts += frame(left, top, wide, high, ceiling, most)
        ends = sorted((-own[-1]["value"], name) for name, own in lines.items())
        labels = dict(
            zip([name for _, name in ends], spread([top + high * (1 + v / ceiling) for v, _ in ends], 11), strict=True)
        )
        for row in track["rows"]:
            own, ink = lines[row["contestant"]], colour(row, track)
            dash = "" if row["ranked"] else ' stroke-dasharray="4 3"'
            band = "L".join([*(at(p, "high") for p in own), *(at(p, "low") for p in reversed(own))])
            parts.append(f'<path d="M{band}Z" fill="{ink}" opacity=".12"/>')
            parts.append(f'<path d="M{"L".join(at(p, "value") for p in own)}" fill="none" stroke="{ink}"{dash}/>')
            parts.append(text(left + wide + 5, labels[row["contestant"]] + 4, row["contestant"], f' fill="{ink}"'))
    return framed("pass@1 over the answers of the prover", NARROW, 28 + len(tracks) * (high + gap), parts)


def frame(left: float, top: float, wide: float, high: float, ceiling: float, most: float) -> list[str]:
    """Axes with three ticks in rates and three in answers."""
    parts = [f'<path d="M{left} {top}V{top + high}H{left + wide}" fill="none" stroke="#9ca3af"/>']
    step = next(step for step in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if ceiling / step <= 5)
    for i in range(int(ceiling / step) + 1):
        said = f"{i * step:.2f}".replace("0.", ".") if i else "0"
        parts.append(text(left - 4, top + high * (1 - i * step / ceiling) + 4, said, ' text-anchor="end"'))
    for share, anchor in ((0, "start"), (0.5, "middle"), (1, "end")):
        parts.append(text(left + share * wide, top + high + 14, f"{share * most:,.0f}", f' text-anchor="{anchor}"'))
    return parts


def proposed(tracks: Sequence[Row]) -> str:
    """The share of each size in the problems of each part of the run, and the prover's frontier over it."""
    columns, wide, left, gap = 4, 84, 24, 28
    parts, y = [*legend_of_shades()], 40.0
    for track in tracks:
        rows = [row for row in track["rows"] if row["proposed"]]
        if not rows:  # a track with one size
            continue
        sizes = sorted(
            {int(size) for row in rows for size in row["proposed"]} | {int(s) for s in track["facts"]["measured"]}
        )
        cell = 6 if len(sizes) > 8 else 12
        high = cell * (sizes[-1] - sizes[0] + 1)
        parts.append(text(4, y, track["track"], ' font-weight="bold"'))
        y += 20
        for index, row in enumerate(rows):
            x, top = left + index % columns * (wide + gap), y + index // columns * (high + 24)
            parts.append(text(x, top - 3, row["contestant"]))
            parts += [text(x - 3, top + high - cell / 2 + 4, str(sizes[0]), ' text-anchor="end"')]
            parts += [text(x - 3, top + cell / 2 + 4, str(sizes[-1]), ' text-anchor="end"')]
            parts += shares(row["proposed"], x, top + high, wide, cell, sizes[0])
            parts.append(f'<rect x="{x}" y="{top:.1f}" width="{wide}" height="{high}" fill="none" stroke="#9ca3af"/>')
            parts.append(frontier(row["curve"], x, top + high, wide, cell, sizes[0]))
        y += -(-len(rows) // columns) * (high + 24) + 6
    return framed("Sizes of the problems over the run, and the frontier of the prover", NARROW, int(y), parts)


def legend_of_shades() -> Iterator[str]:
    """Draw the shades with the least share of each."""
    for i, (shade, edge) in enumerate(zip(SHADES, EDGES, strict=True)):
        yield f'<rect x="{4 + 88 * i}" y="5" width="12" height="12" fill="{shade}"/>'
        yield text(20 + 88 * i, 15, f"{edge:.1%} up")


def shares(
    problems: Mapping[str, Sequence[float]], x: float, bottom: float, wide: float, cell: float, first: int
) -> list[str]:
    """A path for each shade: the cells (part of the run, size) whose share it stands for."""
    totals = [sum(column) for column in zip(*problems.values(), strict=True)]
    step = wide / len(totals)
    boxes: dict[str, list[str]] = {}
    for size, own in problems.items():
        for part, (count, total) in enumerate(zip(own, totals, strict=True)):
            level = sum(total > 0 and count / total >= edge for edge in EDGES)
            if level:
                corner = f"M{x + part * step:.1f} {bottom - (int(size) - first + 1) * cell:.1f}"
                boxes.setdefault(SHADES[level - 1], []).append(f"{corner}h{step:.1f}v{cell}h-{step:.1f}z")
    return [f'<path d="{"".join(boxes[shade])}" fill="{shade}"/>' for shade in SHADES if shade in boxes]


def frontier(points: Sequence[Row], x: float, bottom: float, wide: float, cell: float, first: int) -> str:
    """A line through the highest size with a pass@1 of LIMIT or more at each point of the curve that has one."""
    last = points[-1]["round"]
    found = []
    for point in points:
        reached = [int(size) for size, rates in point["by_rung"].items() if rates[0] >= LIMIT]
        if reached:
            found.append(f"{x + point['round'] / last * wide:.1f} {bottom - (max(reached) - first + 0.5) * cell:.1f}")
    return f'<path d="M{"L".join(found)}" fill="none" stroke="#c2410c" stroke-width="2"/>' if found else ""
