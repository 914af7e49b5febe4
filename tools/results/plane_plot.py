"""The picture of the track `plane`, as SVG: held-out pass@1 by size and target at four points of a run, and the bands
of the problems played."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from .arena_plots import EDGES, SHADES, legend_of_shades, text
from .plot import framed
from .readers import Row

SHOWN = {"plain": "plain RLOO on the task", "trained": "conjecturer alone", "mixed": "conjecturer and task"}
"""Contestant -> title of its row of panels."""
POINTS = (1, 2, 3, 5)
"""Points of the curve that have a panel."""
CELL, LEFT, TOP, WIDE, GAP, BAR = 14, 56, 44, 98, 44, 26
"""CELL: side of a cell. WIDE, GAP: width of a panel and of the space after it. BAR: length of a bar of 100%."""


def plane(folder: Path, problems: Sequence[Row]) -> str | None:
    """Draw the picture from the jobs of the track in `folder`, averaged over seeds; None where one of SHOWN has no
    job. problems: the held-out set."""
    jobs = {name: [json.loads(path.read_text()) for path in sorted(folder.glob(f"{name}-*.json"))] for name in SHOWN}
    if not all(jobs.values()):
        return None
    facts = jobs["plain"][0]["facts"]
    bands = facts["bands"]["target"]
    cells = [cell_of(problem, facts["measured"], bands) for problem in problems]
    parts = [*legend_of_shades()]
    high = CELL * len(bands)
    for row, (name, title) in enumerate(SHOWN.items()):
        top = TOP + row * (high + GAP)
        seeds = len(jobs[name])
        parts.append(text(4, top - 6, f"{title} ({seeds} seed{'s' * (seeds > 1)})", ' font-weight="bold"'))
        for i, band in enumerate(bands):
            parts.append(text(LEFT - 4, top + high - CELL * (i + 0.25), band, ' text-anchor="end"'))
        for column, at in enumerate(POINTS):
            left = LEFT + column * (WIDE + GAP)
            rates = [mean_by_cell(job["curve"][at]["correct"], cells, facts) for job in jobs[name]]
            parts += panel(np.mean(rates, 0), left, top)
            parts += bars(played(jobs[name], bands, at), left + WIDE, top + high)
            answers = f"{jobs[name][0]['curve'][at]['answers']:,} answers"
            parts.append(text(left + WIDE / 2, top + high + 12, answers, ' text-anchor="middle"'))
    bottom = TOP + len(SHOWN) * (high + GAP)
    first, last = facts["measured"][0], facts["measured"][-1]
    parts.append(text(4, bottom - 8, f"A panel: {first} to {last} numbers across, targets upwards."))
    parts.append(text(LEFT + 2 * (WIDE + GAP) + 8, bottom - 8, "Bars: problems played, by target."))
    title = "Held-out pass@1 by size and target, and the problems played"
    return framed(title, LEFT + len(POINTS) * (WIDE + GAP), bottom, parts)


def cell_of(problem: Row, sizes: Sequence[int], bands: Sequence[str]) -> tuple[int, int]:
    """Return the indices of a problem's size and of the band of its target."""
    ends = [int(band.split("-")[1]) for band in bands]
    return sizes.index(len(problem["numbers"])), next(i for i, end in enumerate(ends) if problem["target"] <= end)


def mean_by_cell(correct: Sequence[int], cells: Sequence[tuple[int, int]], facts: Row) -> np.ndarray:
    """Return pass@1 by (size, band)."""
    totals = np.zeros((len(facts["measured"]), len(facts["bands"]["target"]), 2))
    for count, cell in zip(correct, cells, strict=True):
        totals[cell] += count / facts["samples"], 1
    return totals[..., 0] / totals[..., 1]


def played(jobs: Sequence[Row], bands: Sequence[str], at: int) -> list[float]:
    """Return the share of each band in the problems played in the twelfth of the rounds that ends at a point."""
    counts = np.array([[job["played"][band] for band in bands] for job in jobs], float).sum(0)
    part = at * counts.shape[1] // 5 - 1
    return (counts[:, part] / counts[:, part].sum()).tolist()


def panel(rates: np.ndarray, left: float, top: float) -> Iterator[str]:
    """Draw the cells, sizes from left to right and targets from below."""
    sizes, bands = rates.shape
    for (size, band), rate in np.ndenumerate(rates):
        level = sum(rate >= edge for edge in EDGES)
        if level:
            x, y = left + size * CELL, top + (bands - 1 - band) * CELL
            yield f'<path d="M{x} {y}h{CELL}v{CELL}h-{CELL}z" fill="{SHADES[level - 1]}"/>'
    yield f'<rect x="{left}" y="{top}" width="{sizes * CELL}" height="{bands * CELL}" fill="none" stroke="#9ca3af"/>'


def bars(shares: Sequence[float], left: float, bottom: float) -> Iterator[str]:
    """Draw a bar at the right of each band."""
    for band, share in enumerate(shares):
        y = bottom - (band + 1) * CELL + 3
        yield f'<path d="M{left + 3} {y}h{share * BAR:.1f}v{CELL - 6}h-{share * BAR:.1f}z" fill="#c2410c"/>'
