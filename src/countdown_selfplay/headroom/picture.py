"""The gates as panels of one picture."""

from __future__ import annotations

from typing import Any

from ..evaluation.report import pictures

NAMES = {1: "support", 2: "frontier", 3: "transfer", 4: "head-room"}


def gate_panels(found: dict[str, Any]) -> list[pictures.Bars]:
    """A panel for each gate that headroom.json has figures of."""
    return [
        pictures.Bars(f"{gate['number']} {NAMES[gate['number']]}: {gate['word']}", *_bars(gate))
        for gate in found["gates"]
        if gate["figures"]
    ]


def gates_svg(found: dict[str, Any]) -> str:
    """The panels in one picture, as SVG text."""
    return pictures.svg(pictures.bar_grid(gate_panels(found)))


def _bars(gate: dict[str, Any]) -> tuple[Any, ...]:
    """The rest of Bars."""
    number, figures = gate["number"], gate["figures"]
    if number == 1:
        ((what, solved),) = figures.items()
        return [*solved], [(what, [*solved.values()])], "rung"
    if number == 2:
        before, after = figures["before"], figures["after"]
        return [*before], [("at the frontier before", [*before.values()]), ("after", [*after.values()])], "rung"
    if number == 3:
        ((what, gains),) = [(name, own) for name, own in figures.items() if name != "trained_on"]
        return (
            [*gains],
            [(f"change of {what}", [gain[0] for gain in gains.values()])],
            "rung",
            [gain[1:] for gain in gains.values()],
        )
    scores = figures["mean_pass_at"]
    heights = [(f"mean pass@{k}", [own[k] for own in scores.values()]) for k in next(iter(scores.values()))]
    return [arm.removeprefix("oracle_") for arm in scores], heights, "arm"
