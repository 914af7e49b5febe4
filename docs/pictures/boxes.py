"""Boxes and arrows for the pictures of the pages, drawn by matplotlib in the report's fonts and colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from countdown_selfplay.lab.report.pictures import styled, svg

PROVER, CONJECTURER, EXACT, THIRD, PLAIN = "#0b62b0", "#c2510a", "#1c7a3d", "#8a3ca8", "#62656d"
"""Colours by who acts: a policy that solves, one that proposes, exact code, another policy, anything else."""
INK = "#2b2d33"
WIDTH = 400  # units of a picture's width: text of size 10 is 10 pixels high where the picture is 400 pixels wide

Point = tuple[float, float]


@dataclass(frozen=True)
class Box:
    """A rectangle of a diagram, its upper left corner at (x, y); y grows downwards."""

    x: float
    y: float
    width: float
    height: float

    def at(self, across: float, down: float) -> Point:
        """A point by its shares of width and height: (0, 0.5) is the middle of the left side."""
        return self.x + across * self.width, self.y + down * self.height

    left = property(lambda self: self.at(0, 0.5))
    right = property(lambda self: self.at(1, 0.5))
    top = property(lambda self: self.at(0.5, 0))
    bottom = property(lambda self: self.at(0.5, 1))


class Diagram:
    """A picture of WIDTH x `height` units, filled by calls in reading order."""

    @styled
    def __init__(self, height: float) -> None:
        self.figure = Figure(figsize=(WIDTH / 72, height / 72))
        self.axes: Axes = self.figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(height, 0))
        self.axes.set_axis_off()

    @styled
    def box(
        self, x: float, y: float, width: float, height: float, title: str, text: str = "", color: str = PLAIN
    ) -> Box:
        """A box with a bold title and lines of text below it."""
        style = "round,pad=0,rounding_size=6"
        shape = FancyBboxPatch((x, y), width, height, boxstyle=style, facecolor=f"{color}1f", edgecolor=color, lw=1.3)
        self.axes.add_patch(shape)
        lines = text.split("\n") if text else []
        first = y + height / 2 - 6 * len(lines)
        self.words((x + width / 2, first), title, color=color, size=10.5, weight="bold")
        for i, line in enumerate(lines, start=1):
            self.words((x + width / 2, first + 12.5 * i), line)
        return Box(x, y, width, height)

    @styled
    def words(
        self, at: Point, text: str, color: str = INK, size: float = 9, weight: str = "normal", ha: str = "center"
    ) -> None:
        for i, line in enumerate(text.split("\n")):
            self.axes.text(at[0], at[1] + 11.5 * i, line, color=color, size=size, weight=weight, ha=ha, va="center")

    @styled
    def arrow(self, start: Point, end: Point, color: str = INK, update: bool = False, bend: float = 0.0) -> None:
        """`update`: dashed, for what changes weights. `bend`: the height of the arc over its length."""
        line = FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=10, shrinkA=2, shrinkB=2, color=color, lw=1.4,
            linestyle=(0, (4, 2.5)) if update else "-", connectionstyle=f"arc3,rad={bend}",
        )  # fmt: skip
        self.axes.add_patch(line)

    def chain(self, boxes: Sequence[Box]) -> None:
        """An arrow from each box to the next one on its right."""
        for one, following in pairwise(boxes):
            self.arrow(one.right, following.left)

    def svg(self) -> str:
        return svg(self.figure)
