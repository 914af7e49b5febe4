"""The forest plot, written as SVG by hand: the same bytes everywhere, and its text is text."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .readers import Row
from .rows import VERDICTS
from .studies import STUDIES

WIDTH, LEFT, PANEL, STEP, TOP = 620, 336, 132, 13, 62
RANGES = (0.1, 0.25)
"""What half of each panel's width stands for; longer intervals are cut at the panel's end."""
COLOURS = {"ahead": "#0b6e4f", "behind": "#c2410c", "inconclusive": "#6b7280"}


def mark(verdict: str, x: float, y: float) -> str:
    """Shapes tell the three apart where colours do not: a full triangle up or down, an open circle."""
    if verdict == VERDICTS[2]:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#fff" stroke="{COLOURS[verdict]}"/>'
    tip, base = (-4, 3) if verdict == "ahead" else (4, -3)
    points = f"{x:.1f},{y + tip:.1f} {x - 4:.1f},{y + base:.1f} {x + 4:.1f},{y + base:.1f}"
    return f'<polygon points="{points}" fill="{COLOURS[verdict]}"/>'


def interval(row: Row, panel: int, y: float, ranges: Sequence[float] = RANGES) -> str:
    half = ranges[panel]
    middle = LEFT + 8 + panel * (PANEL + 8) + PANEL / 2
    low, value, high = (
        middle + max(-half, min(half, row[end])) / half * PANEL / 2 for end in ("low", "difference", "high")
    )
    line = f'<path d="M{low:.1f} {y:.1f}H{high:.1f}" stroke="{COLOURS[row["verdict"]]}"/>'
    return line + mark(row["verdict"], value, y)


def svg(rows: Sequence[Row]) -> str:
    """One line for an arm and its control: pass@1 at the left, the study's other metric at the right."""
    drawn = {study.name: study for study in STUDIES if study.drawn}
    parts, y, group = [], TOP, ""
    pairs: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if row["study"] in drawn and row["metric"] in ("pass@1", drawn[row["study"]].right):
            pairs.setdefault((row["study"], row["arm"], row["control"]), []).append(row)
    for (study, arm, control), own in pairs.items():
        if study != group:
            y += STEP + 5
            right = drawn[study].right
            said = f" (right: {right})" if right != "pass@16" else ""
            parts.append(f'<text x="4" y="{y + 4}" font-weight="bold">{escape(study + said)}</text>')
            group = study
        y += STEP
        parts.append(f'<text x="{LEFT}" y="{y + 4}" text-anchor="end">{escape(f"{arm} − {control}")}</text>')
        parts += [interval(row, int(row["metric"] != "pass@1"), y) for row in own]
    y += STEP
    parts += [*axes(RANGES, y), *legend()]
    return framed("Each arm less its control: differences with 95% intervals", WIDTH, y + 8, parts)


def axes(ranges: Sequence[float], bottom: float) -> list[str]:
    """The zero line and three ticks of each panel: pass@1, pass@16."""
    parts = []
    for panel, half in enumerate(ranges):
        x = LEFT + 8 + panel * (PANEL + 8)
        parts.append(f'<path d="M{x + PANEL / 2} {TOP}V{bottom}" stroke="#9ca3af" stroke-dasharray="2 2"/>')
        for value in (-half, 0, half):
            at = x + PANEL / 2 * (1 + value / half)
            anchor = "start" if value < 0 else "end" if value > 0 else "middle"
            said = f"{value:+g}".replace("0.", ".").replace("-", "−") if value else "0"
            parts.append(f'<text x="{at:.0f}" y="{TOP - 4}" text-anchor="{anchor}">{said}</text>')
        parts.append(
            f'<text x="{x + PANEL / 2}" y="{TOP - 20}" text-anchor="middle">{("pass@1", "pass@16")[panel]}</text>'
        )
    return parts


def legend() -> list[str]:
    places = [(14 + 150 * i, verdict) for i, verdict in enumerate(VERDICTS)]
    return [mark(verdict, x, 14) + f'<text x="{x + 10}" y="18">{verdict}</text>' for x, verdict in places]


def framed(title: str, width: int, height: float, parts: Sequence[str]) -> str:
    """A whole file: the parts on white, with a title for screen readers."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="11" role="img">\n'
        f"<title>{escape(title)}</title>\n"
        f'<rect width="{width}" height="{height}" fill="#fff"/>\n'
    )
    return head + "\n".join(parts) + "\n</svg>\n"
