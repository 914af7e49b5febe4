"""A metric is declared once: guard, progress bar, report and docs/metrics.md all read the declaration."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from math import inf, isinf
from typing import Any

Range = tuple[float, float]
"""A closed range; an infinite end is no bound."""
UNBOUNDED = (-inf, inf)
SHARE = (0.0, 1.0)
"""View of a panel of shares."""


@dataclass(frozen=True)
class Panel:
    """A chart of the report: metrics with a panel of the same title are its curves. Title and label may have the
    places of the metric's name, such as `{role}` or `<k>`."""

    title: str
    """"": no chart shows the metric."""
    view: tuple[float, ...] = ()
    """Values that are in view in any case, such as SHARE or (0,)."""
    section: str = ""
    """Heading of the page above the chart."""
    label: str = ""
    """Of the metric's curve; "": the player, the words of its places, or its name."""

    def of(self, label: str) -> Panel:
        """The same chart for a metric whose curve is called `label`."""
        return replace(self, label=label)


HIDDEN = Panel("")
"""Of metrics that no chart shows."""


@dataclass(frozen=True)
class Metric:
    """A number that a game or the frame logs each round; a round that has no value leaves it out, never logs 0."""

    name: str
    """As it is logged. `{prover}` in it is replaced by each player of that kind, `{role}` by each player of any kind,
    and `<k>` by any word: the name of many metrics of one meaning."""
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
    subject: str = ""
    """The metric in words, as the subject of a finding and a row of the health table: "share of readable proposals".
    "": its name. A metric with a subject, a word or a range is in that table."""
    cure: str = ""
    """Action for a value beyond its ranges: a sentence, with which a finding and a warning end."""
    panel: Panel | None = None
    """The chart of the report that shows it. None: a chart named after the metric, shared by all players."""
    legible: bool = False
    """It is the share of a player's texts that can be read: a run warns where that is next to none in its first
    rounds (curriculum/guard.py)."""

    @property
    def explained(self) -> str:
        """`help`, and what to do."""
        return " ".join(filter(None, (self.help, self.cure)))


def for_players(metrics: Iterable[Metric], players: Mapping[str, Sequence[str]]) -> list[Metric]:
    """One declaration per player for names with `{kind}` or `{role}` in them. `players`: kind -> its players; a kind
    that is not in it has none."""
    everyone = [player for names in players.values() for player in names]
    result = []
    for metric in metrics:
        kind = next(iter(re.findall(r"\{(\w+)\}", metric.name)), None)
        if kind is None:
            result.append(metric)
            continue
        names = everyone if kind == "role" else players.get(kind, ())
        word = metric.word if len(names) == 1 else ""  # one word for several would say nothing
        result += [replace(_filled(metric, {kind: name}), word=word) for name in names]
    return result


def declaration_of(name: str, metrics: Iterable[Metric]) -> Metric | None:
    """The declaration of a metric that is logged as `name`, under that name; None if there is none. A kind in the
    declared name is that kind's players, and `proposer`, which has what no player wrote."""
    for metric in metrics:
        if (places := _pattern(metric.name).fullmatch(name)) is not None:
            return replace(_filled(metric, places.groupdict()), name=name) if places.groupdict() else metric
    return None


@lru_cache(maxsize=4096)
def _pattern(name: str) -> re.Pattern[str]:
    """Of the names that a declared name has, with a group for each of its places."""
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
    """The metric with words in the places of its name, its panel and its subject. A player of several is named."""

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
    """ "0.1 to 0.8", "at least 0.9", "at most 0.05", "0"; "" without a bound."""
    low, high = bounds
    if isinf(low) or isinf(high):
        return "" if isinf(low) and isinf(high) else f"at most {high:g}" if isinf(low) else f"at least {low:g}"
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def as_json(metric: Metric) -> dict[str, Any]:
    """The fields of a declaration that a reader of the run folder needs, without the empty ones; null: no bound."""
    result: dict[str, Any] = {
        name: getattr(metric, name) for name in ("help", "in_a_row", "word", "subject", "cure", "legible")
    }
    for name, bounds in (("healthy", metric.healthy), ("trip", metric.trip or UNBOUNDED)):
        result[name] = None if bounds == UNBOUNDED else [None if isinf(end) else end for end in bounds]
    if metric.panel is not None:
        result["panel"] = {name: value for name, value in asdict(metric.panel).items() if value or name == "title"}
    return {name: value for name, value in result.items() if value}


def from_json(name: str, written: Mapping[str, Any]) -> Metric:
    """The metric that `as_json` has written; ValueError or TypeError for anything else."""
    healthy, trip = (written.get(key) and read_range(written[key]) for key in ("healthy", "trip"))
    text, word, subject, cure = (str(written.get(key) or "") for key in ("help", "word", "subject", "cure"))
    panel = Panel(**written["panel"]) if written.get("panel") else None
    if panel is not None:
        if not all(isinstance(one, str) for one in (panel.title, panel.section, panel.label)):
            raise TypeError("a panel without a title")
        panel = replace(panel, view=tuple(map(float, panel.view)))
    metric = Metric(name, text, healthy or UNBOUNDED, trip, written.get("in_a_row"), word=word, cure=cure)
    return replace(metric, subject=subject, panel=panel, legible=bool(written.get("legible")))


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
