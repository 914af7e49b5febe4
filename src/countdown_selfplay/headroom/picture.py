"""The four gates as one row of pictures."""

from __future__ import annotations

from typing import Any

from ..evaluation.report import pictures


def gate_charts(found: dict[str, Any]) -> dict[str, str]:
    """File name -> SVG text, of what headroom.json holds."""
    charts = {}
    for gate in found["gates"]:
        bars: list[tuple[str, list[float]]] = []
        labels: list[str] = []
        figures = gate["figures"]
        if gate["number"] == 1:
            ((what, solved),) = figures.items()
            labels, bars = [*solved], [(what, [*solved.values()])]
        elif gate["number"] == 2:
            labels = [*figures["before"]]
            bars = [("frontier before", [*figures["before"].values()]), ("after", [*figures["after"].values()])]
        elif gate["number"] == 3 and figures:
            ((what, gains),) = [(name, own) for name, own in figures.items() if name != "trained_on"]
            labels, bars = [*gains], [(f"change of {what}", [gain[0] for gain in gains.values()])]
        elif gate["number"] == 4:
            scores = figures["mean_pass_at"]
            labels = [*scores]
            bars = [(f"mean pass@{k}", [own[k] for own in scores.values()]) for k in next(iter(scores.values()))]
        if labels:
            axis = "arm" if gate["number"] == 4 else "rung"
            title = f"Gate {gate['number']}: {'open' if gate['open'] else 'shut'}"
            charts[f"gate_{gate['number']}.svg"] = pictures.svg(pictures.bar_chart(title, labels, bars, axis))
    return charts
