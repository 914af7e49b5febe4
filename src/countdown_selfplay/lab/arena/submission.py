"""Submissions to the leaderboard, and their replays: jobs with drawn seeds, then a row."""

import json
import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from ... import __version__
from ...data.jsonl import json_file
from ...data.run_files import write_atomically
from ...errors import ConfigError
from .contestants import Contestant, contestants, entrant
from .leaderboard import check_rules, check_table, disagreement, goal_of, read_row, row_of, rules
from .schedule import Asked, Place, Schedule
from .tracks import Track

FOLDER = "leaderboard"
"""Folder below the arena's: <contestant>.json for each row; jobs, and the seeds of running ones, are in
folders below it."""


@dataclass(eq=False)
class Submissions:
    """Submissions of an arena. folder: the arena's. track_word: the track as on the command line. again:
    repeat failed jobs."""

    folder: Path
    track: Track
    track_word: str
    workers: int
    again: bool = False
    say: Callable[[str], None] = print

    def row(self, name: str) -> Path:
        return self.folder / FOLDER / f"{name}.json"

    def submit(self, word: str, command: str) -> bool:
        """Run a contestant and write its row; return whether all its jobs are finished."""
        one = self.checked(entrant(word))
        path = self.row(one.name)
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
        path = self.row(name)
        if not path.exists():
            raise ConfigError(f"{path}, the row of {name}, does not exist; write it by `--submit {word}`.")
        row = read_row(path)
        if word == name and name not in contestants():  # a user's own: its settings are in the row
            file = self.folder / FOLDER / "drawn" / f"{name}.yaml"
            write(file, yaml.safe_dump(row["changes"], sort_keys=False))
            word = f"{name}={file}"
        one = self.checked(entrant(word))
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

    def checked(self, one: Contestant) -> Contestant:
        goal_of(self.track)
        one.settings(self.track)
        return one

    def jobs(
        self, one: Contestant, word: str, what: str, but: list[int] | None = None
    ) -> tuple[list[dict[str, Any]] | None, Path]:
        """Return the files of the jobs, None unless all are finished, and the file of their seeds, which are drawn
        once. but: seeds that are excluded."""
        drawn = self.folder / FOLDER / "drawn" / f"{one.name}.{what}.json"
        now = rules(one, self.track)
        if not drawn.exists():
            draw = random.SystemRandom()
            seeds: list[int] = []
            while len(seeds) < goal_of(self.track).seeds:
                seed = draw.randrange(1, 2**31)
                seeds += [seed] if seed not in (*seeds, *(but or [])) else []
            write(drawn, json.dumps({"seeds": seeds, **now}))
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
        whole = all(file.exists() for file in files)
        fields = {"points": list, "machine": dict}
        return [json_file(file, "remove it", **fields) for file in files] if whole else None, drawn

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
