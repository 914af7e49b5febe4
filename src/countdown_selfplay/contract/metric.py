"""Declarations of metrics, which the guard, the progress bar, the report and docs/metrics.md read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from math import inf, isinf
from typing import Any

Range = tuple[float, float]
"""Closed range; an infinite end is unbounded."""
UNBOUNDED = (-inf, inf)
SHARE = (0.0, 1.0)
"""`Panel.view` of a chart whose metrics are shares."""


@dataclass(frozen=True)
class Panel:
    """Chart of the report. Metrics whose panels have the same title are its curves. Title and label may contain
    placeholders of the metric's name, such as `{role}` or `<k>`."""

    title: str
    """Title of the chart; "": no chart shows the metric."""
    view: tuple[float, ...] = ()
    """Values that are always in view, such as SHARE or (0,)."""
    section: str = ""
    """Heading above the chart."""
    label: str = ""
    """Name of the metric's curve; "": the values of the placeholders, such as the player, or the metric's name."""

    def of(self, label: str) -> Panel:
        """Return the same chart for a metric whose curve is called `label`."""
        return replace(self, label=label)


HIDDEN = Panel("")
"""Panel of metrics that no chart shows."""


@dataclass(frozen=True)
class Metric:
    """Number that a game or the trainer logs each round. A round without a value logs nothing, never 0 instead."""

    name: str
    """Name in the log. `{prover}` stands for each player of that role, `{role}` for each player of any role, and `<k>`
    for any word, so that one declaration covers many metrics of one meaning."""
    help: str
    """Formula, unit, and the meaning of a bad value; one paragraph of docs/metrics.md."""
    healthy: Range = UNBOUNDED
    """Closed range of the values that cause no finding in the report."""
    trip: Range | None = None
    """Closed range of the mean over the guard's window; outside it the guard rolls back. None: not guarded."""
    in_a_row: int | None = None
    """Number of consecutive rounds with a value above 0 after which the guard rolls back. None: not guarded."""
    finite: bool = False
    """Whether the guard rolls back at the first value that is not finite."""
    absent: float | None = None
    """Value that the guard assumes in a round without the metric, after the first with it. None: no value."""
    word: str = ""
    """Label on the progress bar and in tables; "": not shown there."""
    subject: str = ""
    """Subject of a finding and of a row of the health table, such as "share of readable proposals"; "": the name. The
    table lists metrics with a subject, a word or a range."""
    cure: str = ""
    """Remedy for a value outside the ranges: the sentence that ends a finding and a warning."""
    panel: Panel | None = None
    """Chart of the report. None: a chart named after the metric, shared by all players."""
    legible: bool = False
    """Whether the metric is a share of readable texts; a run warns if it is close to 0 in the first rounds."""

    @property
    def explained(self) -> str:
        """Text of `help` and the remedy."""
        return " ".join(filter(None, (self.help, self.cure)))


def for_players(metrics: Iterable[Metric], players: Mapping[str, Sequence[str]]) -> list[Metric]:
    """Return the metrics, those with `{role}` or `{<a role's name>}` once per player. `players`: role -> players."""
    everyone = [player for names in players.values() for player in names]
    result = []
    for metric in metrics:
        kind = next(iter(re.findall(r"\{(\w+)\}", metric.name)), None)
        if kind is None:
            result.append(metric)
            continue
        names = everyone if kind == "role" else players.get(kind, ())
        word = metric.word if len(names) == 1 else ""  # a single word for several players is ambiguous
        result += [replace(_filled(metric, {kind: name}), word=word) for name in names]
    return result


def declaration_of(name: str, metrics: Iterable[Metric]) -> Metric | None:
    """Return the declaration of the metric that is logged as `name`, with that name, or None. A role in braces matches
    its players, and `proposer`, which has the metrics of proposals without a player."""
    for metric in metrics:
        if (places := _pattern(metric.name).fullmatch(name)) is not None:
            return replace(_filled(metric, places.groupdict()), name=name) if places.groupdict() else metric
    return None


@lru_cache(maxsize=4096)
def _pattern(name: str) -> re.Pattern[str]:
    """Compile the pattern of the names that a declared name covers, with a group per placeholder."""
    parts = []
    for part in re.split(r"(\{\w+\}|<\w+>)", name):
        word = part[1:-1]
        if part.startswith("{"):
            kind = r"\w+" if word == "role" else f"(?:{word}|proposer)"
            parts.append(rf"(?P<{word}>{kind}(?:/\d+)?)")
        else:
            parts.append(f"(?P<{word}>[^<>]+)" if part.startswith("<") else re.escape(part))
    return re.compile("".join(parts))


def _filled(metric: Metric, words: Mapping[str, str]) -> Metric:
    """Return the metric with the placeholders of its name, panel and subject filled in."""

    def fill(text: str) -> str:
        for place, word in words.items():
            text = text.replace(f"{{{place}}}", word).replace(f"<{place}>", word)
        return text

    player = next((word for place, word in words.items() if f"{{{place}}}" in metric.name), "")
    numbered, subject, panel = "/" in player, fill(metric.subject), metric.panel
    if numbered and subject and player not in subject:
        subject = f"{subject} of {player}"
    if panel is not None and panel.title:
        label = fill(panel.label) or ", ".join(words.values())
        if numbered and player not in label:
            label = f"{label}, {player}"
        panel = replace(panel, title=fill(panel.title), label=label)
    return replace(metric, name=fill(metric.name), subject=subject, panel=panel)


def range_text(bounds: Range) -> str:
    """Describe a range: "0.1 to 0.8", "at least 0.9", "at most 0.05", "0"; "" without a bound."""
    low, high = bounds
    if isinf(low) or isinf(high):
        return "" if isinf(low) and isinf(high) else f"at most {high:g}" if isinf(low) else f"at least {low:g}"
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def as_json(metric: Metric) -> dict[str, Any]:
    """Return the non-empty fields that a reader of the run folder needs; in ranges, null is an infinite end."""
    result: dict[str, Any] = {
        name: getattr(metric, name) for name in ("help", "in_a_row", "word", "subject", "cure", "legible")
    }
    for name, bounds in (("healthy", metric.healthy), ("trip", metric.trip or UNBOUNDED)):
        result[name] = None if bounds == UNBOUNDED else [None if isinf(end) else end for end in bounds]
    if metric.panel is not None:
        result["panel"] = {name: value for name, value in asdict(metric.panel).items() if value or name == "title"}
    return {name: value for name, value in result.items() if value}


def from_json(name: str, written: Mapping[str, Any]) -> Metric:
    """Return the metric that `as_json` has written. Raises ValueError or TypeError for anything else."""
    healthy, trip = (written.get(key) and read_range(written[key]) for key in ("healthy", "trip"))
    texts: dict[str, Any] = {key: str(written.get(key) or "") for key in ("help", "word", "subject", "cure")}
    panel = Panel(**written["panel"]) if written.get("panel") else None
    if panel is not None:
        if not all(isinstance(one, str) for one in (panel.title, panel.section, panel.label)):
            raise TypeError("a panel without a title")
        panel = replace(panel, view=tuple(map(float, panel.view)))
    others: dict[str, Any] = {"in_a_row": written.get("in_a_row"), "legible": bool(written.get("legible"))}
    return Metric(name, healthy=healthy or UNBOUNDED, trip=trip, panel=panel, **texts, **others)


def read_range(value: object) -> Range:
    """Return the range of [low, high], where null means unbounded. Raises ValueError for anything else."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError("not two ends")
    if any(not isinstance(end, int | float | None) or isinstance(end, bool) for end in value):
        raise ValueError("not numbers")
    low, high = (default if end is None else float(end) for end, default in zip(value, UNBOUNDED, strict=True))
    if not low <= high or low == inf or high == -inf:  # NaN too
        raise ValueError("nothing lies between the ends")
    return low, high
