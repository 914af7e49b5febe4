"""Killable processes that check answers, for any domain: a deadline per answer, a dead worker's answer checked again,
a straggler's checked twice and taken once (seed 003, appendix B).

Libraries for mathematics end their own time-outs by signals, which work in the main thread alone and not inside C
code; and what a model writes can take all memory. A process can be killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import ConfigError

START_S = 120.0
"""Seconds that a worker may take to import what it needs."""


@dataclass(frozen=True)
class Unchecked:
    """What stands in place of a result: why there is none."""

    reason: str
    """timed_out, died (its process did, every time), or error."""
    detail: str = ""


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    item: int | None = None
    """What it works on."""
    since: float = 0.0
    ready: bool = False
    read: bytes = b""

    def send(self, number: int, item: Any) -> None:
        self.item, self.since = number, time.monotonic()
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it is dead, which `map` will find
            self.process.stdin.write(json.dumps([number, item]).encode() + b"\n")
            self.process.stdin.flush()


@dataclass
class Counts:
    """What became of the items so far."""

    checked: int = 0
    timed_out: int = 0
    died: int = 0
    """Items given up because their workers died."""
    errors: int = 0
    restarts: int = 0
    twice: int = 0
    """Items that a second worker was given as well."""

    @property
    def failed_rate(self) -> float:
        """Share without a result (seed 003 keeps it under 1%)."""
        failed = self.timed_out + self.died + self.errors
        return failed / max(self.checked + failed, 1)


@dataclass
class Workers:
    """A pool of processes that each run one function on one item at a time.

    task: "module:function", a function of one JSON value that returns one. deadline: seconds for an item, after which
    its worker is killed and replaced. attempts: how often an item is tried whose worker died. straggler: seconds after
    which an idle worker is given the same item, when nothing else is waiting; None: half the deadline. megabytes: of
    address space for a worker.

    `map` takes items in any number and returns results in their order; the processes start with the first call and end
    with `close`, with this object, or with this process, whose death closes their input.
    """

    task: str
    processes: int = 2
    deadline: float = 10.0
    attempts: int = 2
    straggler: float | None = None
    megabytes: int = 4096
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        if self.processes < 1 or self.attempts < 1 or not self.deadline > 0 or self.megabytes < 64:
            raise ConfigError(
                f"`processes` ({self.processes}) and `attempts` ({self.attempts}) must be at least 1, `deadline` "
                f"({self.deadline}) above 0 seconds, and `megabytes` ({self.megabytes}) at least 64."
            )
        self._workers: list[_Worker] = []
        self._end = weakref.finalize(self, _end_all, self._workers)

    def map(self, items: Sequence[Any]) -> list[Any]:
        """The function's result for each item, or Unchecked."""
        results: dict[int, Any] = {}
        waiting, tries = deque(range(len(items))), [0] * len(items)
        doubled: set[int] = set()
        if items and not self._workers:
            self._workers += [_started(self.task, self.megabytes) for _ in range(min(self.processes, len(items)))]
        while len(self._workers) < min(self.processes, len(items)):
            self._workers.append(_started(self.task, self.megabytes))
        while len(results) < len(items):
            self._hand_out(items, waiting, results, doubled)
            for worker in self._ready():
                self._take(worker, results)
            for worker in list(self._workers):
                self._bury(worker, waiting, tries, results)
        for worker in list(self._workers):  # a second worker that still works on what was taken
            if worker.item is not None:
                self._replace(worker)
        return [results[number] for number in range(len(items))]

    def _hand_out(self, items: Sequence[Any], waiting: deque[int], results: dict[int, Any], doubled: set[int]) -> None:
        for worker in self._workers:
            if not worker.ready or worker.item is not None:
                continue
            while waiting and waiting[0] in results:
                waiting.popleft()
            if waiting:
                number = waiting.popleft()
                worker.send(number, items[number])
                continue
            slow = [w for w in self._workers if w.item is not None and w.item not in doubled | results.keys()]
            late = self.deadline / 2 if self.straggler is None else self.straggler
            oldest = min(slow, key=lambda w: w.since, default=None)
            if oldest is not None and oldest.item is not None and time.monotonic() - oldest.since >= late:
                doubled.add(oldest.item)
                self.counts.twice += 1
                worker.send(oldest.item, items[oldest.item])

    def _ready(self) -> list[_Worker]:
        """Workers that wrote something, after a short wait at the most."""
        with selectors.DefaultSelector() as selector:
            for worker in self._workers:
                assert worker.process.stdout is not None
                selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
            return [key.data for key, _ in selector.select(timeout=0.05)]

    def _take(self, worker: _Worker, results: dict[int, Any]) -> None:
        """Read what a worker wrote; the first result of an item counts."""
        assert worker.process.stdout is not None
        worker.read += os.read(worker.process.stdout.fileno(), 1 << 16)
        *lines, worker.read = worker.read.split(b"\n")
        for line in lines:
            said = json.loads(line)
            if said == "ready":
                worker.ready = True
                continue
            number, result, *error = said
            if worker.item == number:
                worker.item = None
            if number in results:
                continue
            results[number] = Unchecked("error", error[0]) if error else result
            self.counts.errors += bool(error)
            self.counts.checked += not error

    def _bury(self, worker: _Worker, waiting: deque[int], tries: list[int], results: dict[int, Any]) -> None:
        """Replace a worker that died or missed its deadline, and decide what becomes of its item."""
        age, item = time.monotonic() - worker.since, worker.item
        if worker.process.poll() is not None:
            if not worker.ready:
                raise ConfigError(
                    f"A worker for '{self.task}' ended before it could start (exit code {worker.process.returncode}); "
                    "its own message stands above."
                )
            self._replace(worker)
            if item is not None and item not in results and not any(w.item == item for w in self._workers):
                tries[item] += 1
                if tries[item] < self.attempts:
                    waiting.append(item)
                else:
                    results[item] = Unchecked("died")
                    self.counts.died += 1
        elif item is not None and age > self.deadline:
            self._replace(worker)
            if item not in results:
                results[item] = Unchecked("timed_out")
                self.counts.timed_out += 1
        elif not worker.ready and age > START_S:
            raise ConfigError(f"A worker for '{self.task}' did not start within {START_S:g} seconds.")

    def _replace(self, worker: _Worker) -> None:
        _end(worker)
        self.counts.restarts += 1
        self._workers[self._workers.index(worker)] = _started(self.task, self.megabytes)

    def close(self) -> None:
        """End the processes; a later `map` starts new ones."""
        _end_all(self._workers)


def _started(task: str, megabytes: int) -> _Worker:
    command = [sys.executable, "-m", "countdown_selfplay.domains.worker", task, str(megabytes)]
    here = str(Path(__file__).parents[2])
    paths = dict.fromkeys([here, *(path for path in sys.path if path)])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    return _Worker(process, since=time.monotonic())


def _end(worker: _Worker) -> None:
    worker.process.kill()
    worker.process.wait()
    for pipe in (worker.process.stdin, worker.process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):  # what it was still to be sent
                pipe.close()


def _end_all(workers: list[_Worker]) -> None:
    while workers:
        _end(workers.pop())
