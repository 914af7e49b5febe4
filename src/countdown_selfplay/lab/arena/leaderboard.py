"""Leaderboard: answers of the prover until problems of one rung are solved at the goal's rate. Rows, the rule by which
a replay agrees with one, and the table. Loads no torch; `submission.py` runs the jobs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from ...data.jsonl import json_shape
from ...errors import ConfigError
from ...evaluation.answers import first_difference
from ...statistics.bootstrap import t_interval, t_quantile
from ...tiny import EMBEDDED
from .contestants import Contestant
from .tracks import Goal, Track

Row = dict[str, Any]
BASELINE = "plain"
"""Contestant of row 0, the reference of the others."""
FIELDS = {"contestant": str, "title": str, "seeds": list, "changes": dict, "machine": dict}
FIELDS |= dict.fromkeys(("answers", "cpu_seconds", "settings", "facts", "goal", "start"), dict)
CURE = "remove it, and submit again"


def arrived(points: Sequence[Mapping[str, Any]], rate: float) -> Row | None:
    """Return answers, CPU seconds and round at which the rate was reached, interpolated linearly between the first
    measuring point that has it and the one before. None if no point has it."""
    last = next((i for i, point in enumerate(points) if point["rate"] >= rate), None)
    if last is None:
        return None
    before, here = points[max(last - 1, 0)], points[last]
    share = (rate - before["rate"]) / (here["rate"] - before["rate"]) if last else 1.0
    return {
        name: round(before[name] + share * (here[name] - before[name]), 1)
        for name in ("answers", "cpu_seconds", "round")
    }


def row_of(jobs: Sequence[Row], contestant: Contestant, track: Track) -> Row:
    """Return the figures of a submission. The value and the interval (Student's t over seeds) are None unless all
    seeds arrived; the CPU seconds of a seed that did not are those of its whole run."""
    assert track.goal is not None
    ends = [job["arrived"] or job["points"][-1] for job in jobs]
    each = [job["arrived"]["answers"] if job["arrived"] else None for job in jobs]
    return {
        "contestant": contestant.name, "title": contestant.title, "track": track.name,
        "seeds": [job["seed"] for job in jobs], "answers": _summary(each),
        "cpu_seconds": _summary([end["cpu_seconds"] for end in ends]), "rounds": [end["round"] for end in ends],
        "points": [[[p["round"], p["answers"], p["rate"]] for p in job["points"]] for job in jobs],
        "updates": [job["points"][-1]["updates"] for job in jobs],
        "tokens": [job["points"][-1]["tokens"] for job in jobs], "changes": jobs[0]["changes"],
        **rules(contestant, track), "machine": jobs[0]["machine"],
    }  # fmt: skip


def rules(contestant: Contestant, track: Track) -> Row:
    """Return the facts that a replay shares with its submission, as plain data."""
    assert track.goal is not None
    settings = contestant.settings(track)
    start = settings["model_name_or_path"]
    weights = sha256((EMBEDDED[start] / "model.safetensors").read_bytes()).hexdigest()
    facts = {"settings": settings, "start": {"name": start, "sha256": weights}}
    plain: Row = json.loads(json.dumps(facts | {"facts": track.facts, "goal": asdict(track.goal)}))
    return plain


def _summary(values: Sequence[float | None]) -> Row:
    known = [value for value in values if value is not None]
    result: Row = {"value": None, "each": list(values)}
    if len(known) == len(values):
        result["value"] = round(float(np.mean(known)), 1)
        if len(known) > 1:
            interval = t_interval(known)
            result |= {"low": round(max(interval.low, 0.0), 1), "high": round(interval.high, 1)}
    return result


def goal_of(track: Track) -> Goal:
    """Return the goal of a track. Raises ConfigError for a track without a leaderboard."""
    if track.goal is None:
        raise ConfigError(
            f"The track {track.name} has no `goal`, so it has no leaderboard; play on ladder, or give the track one."
        )
    return track.goal


def check_table(folder: Path, now: Row) -> None:
    """Raise ConfigError for a row of another start, track or goal than the table's."""
    for row in read_rows(folder):
        theirs, ours = ({part: of[part] for part in ("start", "facts", "goal")} for of in (row, now))
        one = first_difference(theirs, ours)
        if one is not None:
            name, was, is_now = one
            raise ConfigError(
                f"{folder / row['contestant']}.json was played with `{name}` {was}, and now it is {is_now}; one table "
                "has the rows of one track, goal and start. Name another --output, or put that back."
            )


def check_rules(row: Row, now: Row, where: str) -> None:
    """Raise ConfigError that names the first difference of the settings, the track, the goal or the start."""
    for part in ("start", "facts", "goal", "settings"):
        one = first_difference(row[part], now[part], part)
        if one is not None:
            name, was, is_now = one
            raise ConfigError(
                f"{where} was played with `{name}` {was}, and now it is {is_now}; a replay has the same settings, "
                "problems and start. Put that back, or submit under another name."
            )


def predicted(values: Sequence[float], n: int) -> tuple[float, float]:
    """Return the 95% prediction interval of the mean of n further seeds, by Student's t: mean -+ t(.975, m - 1) s
    sqrt(1 / m + 1 / n) for m values of standard deviation s."""
    m, mean = len(values), float(np.mean(values))
    half = float(t_quantile(0.975, m - 1)) * float(np.std(values, ddof=1)) * (1 / m + 1 / n) ** 0.5
    return mean - half, mean + half


def disagreement(row: Row, replay: Row) -> str:
    """Return a sentence on how a replay differs from a row; "" if it agrees: neither was reached by all seeds, or the
    mean of the replay is in the prediction interval of the row."""
    before, after = row["answers"], replay["answers"]
    cap = f"{row['goal']['rounds']:,} rounds"
    words = [_words(one) for one in (before, after)]
    if before["value"] is None and after["value"] is None:
        return ""
    if before["value"] is None or after["value"] is None:
        return f"The submission needed {words[0]}, and the replay {words[1]} (cap: {cap})."
    low, high = predicted(before["each"], len(after["each"]))
    if low <= after["value"] <= high:
        return ""
    return (
        f"The submission needed {words[0]}, and the replay {words[1]}, outside of [{low:,.0f}, {high:,.0f}], the 95% "
        "prediction interval of the submission."
    )


def _words(answers: Row) -> str:
    """Format 15,360 answers (15,000 / 15,360 / 15,720)."""
    each = " / ".join("not reached" if one is None else f"{one:,.0f}" for one in answers["each"])
    many = "more answers than its cap has" if answers["value"] is None else f"{answers['value']:,.0f} answers"
    return f"{many} ({each})"


def read_row(path: Path) -> Row:
    with json_shape(path, "all that the leaderboard prints", CURE, **FIELDS) as row:
        table([row])
    return row


def read_rows(folder: Path) -> list[Row]:
    """Return the baseline, then the arrived ones by their answers, then the others by name."""
    rows = [read_row(path) for path in sorted(folder.glob("*.json"))]

    def place(row: Row) -> tuple[bool, bool, float, str]:
        value = row["answers"]["value"]
        return row["contestant"] != BASELINE, value is None, value or 0.0, row["contestant"]

    return sorted(rows, key=place)


def table(rows: Iterable[Row]) -> list[list[str]]:
    """Return the cells of the leaderboard, its head first. The baseline is row 0."""
    head = ["", "contestant", "answers", "95%", "each seed", "CPU seconds", "replayed", "machine", "version", "date"]
    cells, number = [head], 0
    for row in rows:
        first = row["contestant"] == BASELINE
        number += not first
        answers, machine = row["answers"], row["machine"]
        value, checks = answers["value"], row.get("verified", [])
        cells.append(
            [
                "0" if first else str(number),
                f"{row['contestant']}: {row['title']}" if row["title"] != row["contestant"] else row["title"],
                "not reached" if value is None else f"{value:,.0f}",
                f"{answers['low']:,.0f} to {answers['high']:,.0f}" if "low" in answers else "",
                " / ".join("–" if one is None else f"{one:,.0f}" for one in answers["each"]),
                f"{row['cpu_seconds']['value']:,.0f}",
                "agrees" if checks and checks[-1]["agrees"] else "differs" if checks else "not yet",
                f"{machine['processor']}, {machine['threads']} of {machine['cores']} cores, torch {machine['torch']}",
                " ".join(filter(None, (row.get("version"), row.get("commit")))),
                row.get("date", ""),
            ]
        )
    return cells


def markdown(rows: Sequence[Row]) -> str:
    """Format the table, and under it the command of each row."""
    if not rows:
        return "Nothing has been submitted yet."
    head, *cells = [f"| {' | '.join(row)} |" for row in table(rows)]
    commands = [f"- {row['contestant']}: `{row['command']}`" for row in rows if row.get("command")]
    return "\n".join([head, "|---" * (head.count("|") - 1) + "|", *cells, *(["", "Commands:", "", *commands])])
