"""A metric is declared once: guard, progress bar, report and docs/metrics.md all read the declaration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf


@dataclass(frozen=True)
class Metric:
    """A number that a game or the frame logs each round; a round that has no value leaves it out, never logs 0."""

    name: str
    """As it is logged. `{prover}` in it stands for each player of that kind, `{role}` for each player of any kind."""
    help: str
    """Formula, unit, and what a bad value means; one paragraph of docs/metrics.md."""
    healthy: tuple[float, float] = (-inf, inf)
    """Closed range that the report finds no fault with."""
    trip: tuple[float, float] | None = None
    """The guard goes back when the mean over its window leaves this closed range. None: it does not look."""
    in_a_row: int | None = None
    """The guard goes back when the metric is above 0 in so many rounds in a row. None: it does not look."""
    finite: bool = False
    """The guard goes back at once when the value is not finite."""
    word: str = ""
    """What it is called on the progress bar and in tables; "": it is not shown there."""


def for_players(metrics: Iterable[Metric], players: Mapping[str, Sequence[str]]) -> list[Metric]:
    """One declaration per player for names with `{kind}` or `{role}` in them. `players`: kind -> its players."""
    everyone = [player for names in players.values() for player in names]
    found = []
    for metric in metrics:
        kind = next((kind for kind in (*players, "role") if f"{{{kind}}}" in metric.name), None)
        names = [] if kind is None else everyone if kind == "role" else players[kind]
        word = metric.word if kind is None or len(names) == 1 else ""  # one word for several would say nothing
        listed = [metric.name] if kind is None else [metric.name.replace(f"{{{kind}}}", name) for name in names]
        found += [replace(metric, name=name, word=word) for name in listed]
    return found
