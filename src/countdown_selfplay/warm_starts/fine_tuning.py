"""Several runs of `countdown-selfplay sft` side by side, each into a folder that is there once it is whole."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..config.recipes import recipe_settings
from ..data.run_files import read_lines
from ..errors import ConfigError
from ..evaluation.progress import ProgressLine
from .configs import SFTSettings

_LOOK = 2.0  # seconds between two looks at how far the runs are


@dataclass(frozen=True)
class Job:
    """folder: of the finished model. recipe: of `sft`. options: on top of it, by the names of its flags."""

    folder: Path
    recipe: str = "tiny/sft"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def begun(self) -> Path:
        """Where it trains; only a finished model is moved to `folder`."""
        return self.folder.parent / ".unfinished" / self.folder.name

    @property
    def command(self) -> list[str]:
        """The program and its arguments."""
        given = {**self.options, "output_dir": self.begun, "disable_tqdm": "true"}
        words = [
            [f"--{name}", *(map(str, v) if isinstance(v, list | tuple) else [str(v)])] for name, v in given.items()
        ]
        module = ["-m", "countdown_selfplay.cli.main", "sft", "--recipe", self.recipe]
        return [sys.executable, *module, *(word for pair in words for word in pair)]

    def share(self) -> float:
        """Of the epochs that are done, as metrics.jsonl says."""
        epochs = [line.get("epoch", 0.0) for line in read_lines(self.begun / "metrics.jsonl")]
        whole = recipe_settings(self.recipe, SFTSettings, "sft")["num_train_epochs"]
        return min(1.0, max(epochs, default=0.0) / self.options.get("num_train_epochs", whole))


def fine_tune(jobs: Sequence[Job], at_once: int = 2) -> None:
    """Run the jobs, `at_once` at a time, with a progress line on stderr. ConfigError with the last line of one that
    fails; the next call removes its unfinished folder."""
    for job in jobs:  # the finished model replaces its folder
        if job.folder.exists() and (not job.folder.is_dir() or any(job.folder.iterdir())):
            raise ConfigError(f"'{job.folder}' holds other files than a model of this warm start; move it away.")
    threads = max(1, (os.cpu_count() or 1) // max(1, min(at_once, len(jobs))))
    environment = {"OMP_NUM_THREADS": str(threads), **os.environ}
    waiting, running, done = list(jobs), dict[int, tuple[Job, subprocess.Popen[bytes]]](), 0
    label = " and ".join(job.folder.name for job in jobs)
    try:
        with ProgressLine(label, "percent") as bar:
            while waiting or running:
                while waiting and len(running) < at_once:
                    job = waiting.pop(0)
                    shutil.rmtree(job.begun, ignore_errors=True)
                    job.begun.parent.mkdir(parents=True, exist_ok=True)
                    with _log(job).open("wb") as log:
                        process = subprocess.Popen(job.command, stdout=log, stderr=log, env=environment)
                    running[process.pid] = job, process
                for pid, (job, process) in list(running.items()):
                    if process.poll() is not None:
                        del running[pid]
                        _finish(job, process.returncode)
                        done += 1
                share = done + sum(job.share() for job, _ in running.values())
                bar(round(100 * share / len(jobs)), 100)
                if running:
                    with suppress(subprocess.TimeoutExpired):
                        next(iter(running.values()))[1].wait(_LOOK)
    finally:
        for _, process in running.values():
            process.terminate()
            process.wait()


def _log(job: Job) -> Path:
    return job.folder.with_name(f"{job.folder.name}.log")


def _finish(job: Job, code: int) -> None:
    log = _log(job)
    if code:
        said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise ConfigError(f"The warm start '{job.folder}' failed: {said[-1] if said else f'exit code {code}'}")
    shutil.rmtree(job.folder, ignore_errors=True)
    job.begun.rename(job.folder)
    log.unlink()
    with suppress(OSError):  # unless another one is in it
        job.begun.parent.rmdir()


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Rows as JSONL; the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
