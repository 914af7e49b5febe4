"""Leaderboard: answers of the prover until problems of one rung are solved at the goal's rate. Rows, the rule by which
a replay agrees with one, the table, and submissions and their replays: jobs with drawn seeds, then a row."""

import json
import random
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ... import __version__
from ...data.jsonl import json_file, json_shape
from ...data.run_files import write_atomically
from ...errors import ConfigError
from ...evaluation.answers import first_difference
from ...statistics.bootstrap import t_interval, t_quantile
from ...tiny import EMBEDDED
from .contestants import Contestant, contestants, entrant
from .schedule import Asked, Place, Schedule
from .tracks import Goal, Track

Row = dict[str, Any]
BASELINE = "plain"
"""Contestant of row 0, the reference of the others."""
FIELDS = {"contestant": str, "title": str, "seeds": list, "changes": dict, "machine": dict}
FIELDS |= dict.fromkeys(("answers", "cpu_seconds", "settings", "facts", "goal", "start"), dict)
CURE = "remove it, and submit again"
FOLDER = "leaderboard"
"""Folder below the arena's: <contestant>.json for each row, and folders of jobs and of the seeds of running ones."""


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
    """Return the facts that a replay shares with its submission, as plain data. Raises ConfigError for a track without
    a goal, and as `Contestant.settings`."""
    goal, settings = goal_of(track), contestant.settings(track)
    start = settings["model_name_or_path"]
    weights = sha256((EMBEDDED[start] / "model.safetensors").read_bytes()).hexdigest()
    facts = {"settings": settings, "start": {"name": start, "sha256": weights}}
    plain: Row = json.loads(json.dumps(facts | {"facts": track.facts, "goal": asdict(goal)}))
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
    rule = "one table has the rows of one track, goal and start. Name another --output, or put that back."
    for row in read_rows(folder):
        check_rules(row, now, str(folder / f"{row['contestant']}.json"), ("start", "facts", "goal"), rule)


def check_rules(
    row: Row,
    now: Row,
    where: str,
    parts: Sequence[str] = ("start", "facts", "goal", "settings"),
    rule: str = "a replay has the same settings, problems and start. Put that back, or submit under another name.",
) -> None:
    """Raise ConfigError that names the first difference of the settings, the track, the goal or the start."""
    theirs, ours = ({part: of[part] for part in parts} for of in (row, now))
    if (difference := first_difference(theirs, ours)) is not None:
        name, was, is_now = difference
        raise ConfigError(f"{where} was played with `{name}` {was}, and now it is {is_now}; {rule}")


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
    outside = f"outside of [{low:,.0f}, {high:,.0f}], the 95% prediction interval of the submission"
    agrees = low <= after["value"] <= high
    return "" if agrees else f"The submission needed {words[0]}, and the replay {words[1]}, {outside}."


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
        cells.append([
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
        ])  # fmt: skip
    return cells


def markdown(rows: Sequence[Row]) -> str:
    """Format the table, and under it the command of each row."""
    if not rows:
        return "Nothing has been submitted yet."
    head, *cells = [f"| {' | '.join(row)} |" for row in table(rows)]
    commands = [f"- {row['contestant']}: `{row['command']}`" for row in rows if row.get("command")]
    return "\n".join([head, "|---" * (head.count("|") - 1) + "|", *cells, *(["", "Commands:", "", *commands])])


@dataclass(eq=False)
class Submissions:
    """Submissions of an arena. folder: the arena's. track_word: as on the command line. again: repeat failed jobs."""

    folder: Path
    track: Track
    track_word: str
    workers: int
    again: bool = False
    say: Callable[[str], None] = print

    def submit(self, word: str, command: str) -> bool:
        """Run a contestant and write its row; return whether all its jobs are finished."""
        one = entrant(word)
        path = self.folder / FOLDER / f"{one.name}.json"
        if path.exists():
            raise ConfigError(
                f"{path} is a row of {one.name} already; replay it by `--verify {one.name}`, remove it, or submit "
                "under another name."
            )
        check_table(path.parent, rules(one, self.track))
        jobs, drawn = self.jobs(one, word, "submit")
        if jobs is None:
            return False
        found = row_of(jobs, one, self.track) | {"command": command, "version": __version__, "commit": commit()}
        self.write(path, found | {"date": date.today().isoformat()})
        drawn.unlink(missing_ok=True)
        return True

    def verify(self, word: str) -> str | None:
        """Replay a row with other seeds and thus other problems. Return a sentence on the difference, "" if it agrees;
        None if a job is not finished. The row keeps the verdict."""
        name = word.partition("=")[0]
        path = self.folder / FOLDER / f"{name}.json"
        if not path.exists():
            raise ConfigError(f"{path}, the row of {name}, does not exist; write it by `--submit {word}`.")
        row = read_row(path)
        if word == name and name not in contestants():  # a user's own: its settings are in the row
            file = self.folder / FOLDER / "drawn" / f"{name}.yaml"
            write(file, yaml.safe_dump(row["changes"], sort_keys=False))
            word = f"{name}={file}"
        one = entrant(word)
        check_rules(row, rules(one, self.track), str(path))
        jobs, drawn = self.jobs(one, word, "verify", row["seeds"])
        if jobs is None:
            return None
        replay = row_of(jobs, one, self.track)
        said = disagreement(row, replay)
        verdict = {"seeds": replay["seeds"], "answers": replay["answers"], "agrees": not said, "version": __version__}
        verdict |= {"machine": replay["machine"], "date": date.today().isoformat()}
        self.write(path, row | {"verified": [*row.get("verified", []), verdict]})
        drawn.unlink(missing_ok=True)
        return said

    def jobs(
        self, one: Contestant, word: str, what: str, but: Sequence[int] = ()
    ) -> tuple[list[dict[str, Any]] | None, Path]:
        """Return the files of the jobs, None unless all are finished, and the file of their seeds, without `but`."""
        drawn = self.folder / FOLDER / "drawn" / f"{one.name}.{what}.json"
        now = rules(one, self.track)
        if not drawn.exists():
            count = goal_of(self.track).seeds
            seeds = random.SystemRandom().sample(range(1, 2**31), count + len(but))
            write(drawn, json.dumps({"seeds": [seed for seed in seeds if seed not in but][:count], **now}))
        began = json_file(drawn, "remove it, and other seeds are drawn", seeds=list, settings=dict, facts=dict)
        check_rules(began, now, str(drawn))
        place = Place(self.folder, "leaderboard")
        asked = [Asked(self.track_word, word, seed) for seed in began["seeds"]]
        Schedule(place, asked, self.workers, self.again, self.say).play()
        files = [place.file(*job.names) for job in asked]
        for job, file in zip(asked, files, strict=True):
            failed = place.failed(*job.names)
            if not file.exists():
                why = f"failed: {json_file(failed, said=str)['said']}" if failed.exists() else "is not finished"
                self.say(f"{one.name}, seed {job.seed}, {why}; the same command goes on (--again: a failed job too).")
        if not all(file.exists() for file in files):
            return None, drawn
        return [json_file(file, "remove it", points=list, machine=dict) for file in files], drawn

    def write(self, path: Path, row: dict[str, Any]) -> None:
        lines = [f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in row.items()]
        write(path, "{\n" + ",\n".join(lines) + "\n}\n")
        self.say(f"Written: {path}")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text)


def commit() -> str:
    """Return the commit of this module's checkout, marked if files have changed since; "" elsewhere."""
    here = Path(__file__)

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(here.parent), *words], capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        if not git("ls-files", here.name):
            return ""
        changed = git("status", "--porcelain", "--untracked-files=no", ".")
        return git("rev-parse", "--short", "HEAD") + ("+changes" if changed else "")
    except OSError:
        return ""
