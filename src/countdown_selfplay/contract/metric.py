"""A metric is declared once: guard, progress bar, report and docs/metrics.md all read the declaration."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isinf
from typing import Any

Range = tuple[float, float]
"""A closed range; an infinite end is no bound."""
UNBOUNDED = (-inf, inf)


@dataclass(frozen=True)
class Metric:
    """A number that a game or the frame logs each round; a round that has no value leaves it out, never logs 0."""

    name: str
    """As it is logged. `{prover}` in it stands for each player of that kind, `{role}` for each player of any kind, and
    `<k>` for any word: the name of many metrics of one meaning."""
    help: str
    """Formula, unit, and what a bad value means; one paragraph of docs/metrics.md."""
    healthy: Range = UNBOUNDED
    """Closed range that the report finds no fault with."""
    trip: Range | None = None
    """The guard goes back when the mean over its window leaves this closed range. None: it does not look."""
    in_a_row: int | None = None
    """The guard goes back when the metric is above 0 in so many rounds in a row. None: it does not look."""
    finite: bool = False
    """The guard goes back at once when the value is not finite."""
    word: str = ""
    """What it is called on the progress bar and in tables; "": it is not shown there."""
    cure: str = ""
    """What to do about a value beyond its ranges: a sentence, with which a finding and a warning end."""
    legible: bool = False
    """It is the share of a player's texts that can be read: a run warns where that is next to none in its first
    rounds (curriculum/legibility.py)."""

    @property
    def explained(self) -> str:
        """`help`, and what to do."""
        return " ".join(filter(None, (self.help, self.cure)))


def for_players(metrics: Iterable[Metric], players: Mapping[str, Sequence[str]]) -> list[Metric]:
    """One declaration per player for names with `{kind}` or `{role}` in them. `players`: kind -> its players; a kind
    that is not in it has none."""
    everyone = [player for names in players.values() for player in names]
    found = []
    for metric in metrics:
        kind = next(iter(re.findall(r"\{(\w+)\}", metric.name)), None)
        names = [] if kind is None else everyone if kind == "role" else players.get(kind, ())
        word = metric.word if kind is None or len(names) == 1 else ""  # one word for several would say nothing
        listed = [metric.name] if kind is None else [metric.name.replace(f"{{{kind}}}", name) for name in names]
        found += [replace(metric, name=name, word=word) for name in listed]
    return found


def declaration_of(name: str, metrics: Iterable[Metric]) -> Metric | None:
    """The declaration of a metric that is logged as `name`, under that name; None if there is none."""
    for metric in metrics:
        if re.fullmatch(re.sub(r"<\w+>", "[^<>]+", re.escape(metric.name)), name):
            return replace(metric, name=name)
    return None


def range_text(bounds: Range) -> str:
    """ "0.1 to 0.8", "at least 0.9", "at most 0.05", "0"; "" without a bound."""
    low, high = bounds
    if isinf(low) or isinf(high):
        return "" if isinf(low) and isinf(high) else f"at most {high:g}" if isinf(low) else f"at least {low:g}"
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def as_json(metric: Metric) -> dict[str, Any]:
    """What a reader of the run folder needs of a declaration, as far as it says something; null: no bound."""
    found: dict[str, Any] = {name: getattr(metric, name) for name in ("help", "in_a_row", "word", "cure")}
    for name, bounds in (("healthy", metric.healthy), ("trip", metric.trip or UNBOUNDED)):
        found[name] = None if bounds == UNBOUNDED else [None if isinf(end) else end for end in bounds]
    return {name: value for name, value in found.items() if value}


def from_json(name: str, written: Mapping[str, Any]) -> Metric:
    """What `as_json` has written; ValueError or TypeError for anything else."""
    healthy, trip = (written.get(key) and read_range(written[key]) for key in ("healthy", "trip"))
    text, word, cure = (str(written.get(key) or "") for key in ("help", "word", "cure"))
    return Metric(name, text, healthy or UNBOUNDED, trip, written.get("in_a_row"), word=word, cure=cure)


def read_range(value: object) -> Range:
    """[low, high] with null for no bound; ValueError for anything else."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError("not two ends")
    if any(not isinstance(end, int | float | None) or isinstance(end, bool) for end in value):
        raise ValueError("not numbers")
    low, high = (default if end is None else float(end) for end, default in zip(value, UNBOUNDED, strict=True))
    if not low <= high or low == inf or high == -inf:  # NaN too
        raise ValueError("nothing lies between the ends")
    return low, high
