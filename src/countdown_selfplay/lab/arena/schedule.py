"""Scheduler of the jobs without a file: one process each, as many at a time as there are workers."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout

from ...data.run_files import write_atomically

Part = Literal["", "tuning", "leaderboard"]
"""Problems of a job's evaluation: held-out, tuning, or withheld ones. Jobs of each have a separate folder."""
FAILED = ".failed.json"
"""Suffix of the file of a failed job, which is repeated with `again`."""

ENDED = {128 + number for number in (signal.SIGINT, signal.SIGTERM)}
"""Exit codes of a job that a signal ended, which is not a failure."""


@dataclass(frozen=True)
class Place:
    """Files of an arena: <folder>/<part>/<track>/<contestant>-<seed>.json, and unfinished runs."""

    folder: Path
    part: Part = ""

    def file(self, track: str, contestant: str, seed: int) -> Path:
        return self.folder / self.part / track / f"{contestant}-{seed}.json"

    def failed(self, track: str, contestant: str, seed: int) -> Path:
        return self.file(track, contestant, seed).with_suffix(FAILED)

    def run(self, track: str, contestant: str, seed: int) -> Path:
        """Return the folder of the run of a current or interrupted job."""
        return self.folder / "runs" / f"{track}-{self.part and f'{self.part}-'}{contestant}-{seed}"


@dataclass(frozen=True)
class Asked:
    """Request for one job. track, contestant: as on the command line; the names in files are `names`."""

    track: str
    contestant: str
    seed: int

    @property
    def names(self) -> tuple[str, str, int]:
        return Path(self.track).stem, self.contestant.partition("=")[0], self.seed


@dataclass(eq=False)
class Schedule:
    """Queue of jobs, in the order of their start. A job that another process is running is skipped."""

    place: Place
    jobs: Sequence[Asked]
    workers: int
    again: bool = False
    say: Callable[[str], None] = print
    running: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    stopped: bool = False

    def open(self) -> list[Asked]:
        return [job for job in self.jobs if not self._done(job)]

    def _done(self, job: Asked) -> bool:
        names = job.names
        return self.place.file(*names).exists() or (not self.again and self.place.failed(*names).exists())

    def play(self) -> None:
        """Run all jobs. Ctrl-C ends the running ones, which the next call resumes from their checkpoints."""
        for job in self.jobs:  # the run of a job that ended between writing its file and removing its folder
            if self.place.file(*job.names).exists():
                shutil.rmtree(self.place.run(*job.names), ignore_errors=True)
        todo = self.open()
        waiting, lock, total, began = iter(todo), threading.Lock(), len(todo), time.perf_counter()
        if total:
            self.say(f"{total} of {len(self.jobs)} jobs to play, {self.workers} at a time")
        numbers = count(1)

        def work(_: int) -> None:
            while not self.stopped:
                with lock:
                    job = next(waiting, None)
                if job is None:
                    return
                outcome = self._one(job)
                with lock:
                    at = f"[{next(numbers)}/{total}, {(time.perf_counter() - began) / 60:.0f} min]"
                    self.say(f"{at} {' '.join(map(str, job.names))}: {outcome}")

        with ThreadPoolExecutor(self.workers) as pool:
            try:
                list(pool.map(work, range(self.workers)))
            except BaseException:
                self.stopped = True
                for process in list(self.running.values()):
                    process.terminate()
                raise

    def _one(self, job: Asked) -> str:
        """Run a job in a process; return its line of the log."""
        run = self.place.run(*job.names)
        run.parent.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(run.with_suffix(".lock"), timeout=0):
                if self._done(job):
                    return "found finished"
                return self._process(job, run)
        except Timeout:
            return "left to the process that plays it"

    def _process(self, job: Asked, run: Path) -> str:
        words = ["--job", job.track, job.contestant, str(job.seed), "--output", str(self.place.folder)]
        words += ["--attached", *([f"--{self.place.part}"] if self.place.part else [])]
        command = [sys.executable, "-m", "countdown_selfplay.cli.main", "arena", *words]
        environment = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // self.workers)), **os.environ}
        log = run.with_suffix(".log")
        # The job ends when its stdin does, however this process ends.
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stderr": subprocess.STDOUT, "env": environment}
        with log.open("wb") as output, subprocess.Popen(command, stdout=output, **pipes) as process:
            self.running[process.pid] = process
            if self.stopped:  # meanwhile
                process.terminate()
            code = process.wait()
            del self.running[process.pid]
        file, failed = self.place.file(*job.names), self.place.failed(*job.names)
        if file.exists():
            log.unlink()
            failed.unlink(missing_ok=True)
            return summary(json.loads(file.read_text(encoding="utf-8")))
        if self.stopped or code < 0 or code in ENDED:
            return f"ended by signal {-code if code < 0 else code - 128}; it goes on in the next call"
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["no output"]
        failed.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(failed, json.dumps({"exit_code": code, "said": lines[-1][:500]}) + "\n")
        return f"failed: {lines[-1][:300]} (log: {log})"


def summary(result: dict[str, Any]) -> str:
    if "points" in result:  # of the leaderboard
        end, arrived = result["points"][-1], result["arrived"]
        said = "not reached" if arrived is None else f"{arrived['answers']:,.0f} answers"
        return f"{said}, pass@1 {end['rate']:.3f} after {end['answers']:,} answers, {end['cpu_seconds']:.0f} CPU s"
    scored, end, words = result["facts"]["rungs"], result["curve"][-1]["by_rung"], ""
    for i, k in enumerate(result["facts"]["ks"]):
        words += f"pass@{k} {sum(end[str(rung)][i] for rung in scored) / len(scored):.3f}, "
    return f"{words}{result['updates']} updates, {result['cpu_seconds']:.0f} CPU s"
