"""Killable processes that verify answers, for any domain: a deadline per answer; the answer of a dead worker is
tried again, a slow one is given to a second worker (SGS 2026, appendix B). Time-outs of mathematics libraries use
signals, which work only in the main thread and not inside C code, and a model's text can exhaust the memory; a
process can be killed."""

import contextlib
import json
import logging
import os
import selectors
import subprocess
import sys
import time
import weakref
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from pathlib import Path
from typing import Any

from ..errors import CheckerError, ConfigError

logger = logging.getLogger(__name__)

START_S = 300.0
"""Seconds that a worker may take to import its modules."""
STARTS = 5
"""Consecutive failed starts, after a worker has been ready, before the pool gives up."""
PAUSE_S = 2.0
"""Seconds before the next start after a failed one; doubled after each further one, up to 60."""


class Reason(StrEnum):
    """Reason of the verdict on an answer that a pool checks; each is counted."""

    CORRECT = "correct"
    PARTIAL = "partial"
    """A reward above 0 and below that of a right answer."""
    WRONG = "wrong"
    """In mathematics also another unit or relation, or nothing that math-verify can read."""
    NO_ANSWER = "no_answer"
    """The completion has no answer in the domain's form; in mathematics its last box is empty or does not end."""
    TOO_LONG = "too_long"
    """More characters than the domain reads, or in mathematics braces nested deeper than 12."""
    TIMED_OUT = "timed_out"
    DIED = "died"
    """The checking process died at each attempt."""
    ERROR = "error"
    """The checker raised, or returned a value that is not a finite number."""
    BATCH_TIMED_OUT = "batch_timed_out"
    """The time of the whole batch ended before its turn came or ended."""


@dataclass(frozen=True)
class Unchecked:
    """Placeholder of an absent result, with its reason."""

    reason: str
    """One of UNCHECKED."""
    detail: str = ""


UNCHECKED = frozenset({"timed_out", "died", "error", "batch_timed_out"})


@dataclass(frozen=True)
class PoolVerdict:
    """Base class of the judgement of an answer that a pool checks."""

    reason: Reason

    @property
    def correct(self) -> bool:
        return self.reason is Reason.CORRECT

    @property
    def unchecked(self) -> bool:
        return self.reason in UNCHECKED


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    item: int | None = None
    """Current item."""
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
class Workers:
    """Pool of processes that each run one function on one item at a time. `map` takes items in any number and returns
    results in their order; the processes start with the first call and end with `close`, with this object, or with
    this process, whose death closes their input. counts: items `checked` and those with each reason of Unchecked;
    `twice`, given to a second worker; workers `ready` and `ended`.

    task: "module:function", a function from one JSON value to one. deadline: seconds for an item, after which its
    worker is killed and replaced. first: item that a worker processes before it is ready, for example to load modules;
    its result is dropped. attempts: attempts at an item whose worker died. straggler: seconds after which an idle
    worker gets the same item, if no other is waiting; None: half the deadline. megabytes: of address space for a
    worker. batch: seconds for all items of a call, from the first ready worker; None: `batch_seconds`."""

    task: str
    processes: int = 2
    deadline: float = 10.0
    attempts: int = 2
    straggler: float | None = None
    megabytes: int = 4096
    batch: float | None = None
    first: Any = None
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._workers: list[_Worker] = []
        self._failed_starts, self._next_start = 0, 0.0  # in a row; on the monotonic clock
        self._end = weakref.finalize(self, _end_all, self._workers)

    def map(self, items: Sequence[Any], deadline: float | None = None) -> list[Any]:
        """Return the function's result for each item, or Unchecked. `deadline`: for each of these items. Raises
        ConfigError if a worker cannot start and none was ever ready, CheckerError if later ones cannot."""
        deadline = self.deadline if deadline is None else deadline
        results: dict[int, Any] = {}
        waiting, tries = deque(range(len(items))), [0] * len(items)
        doubled: set[int] = set()
        seconds = batch_seconds(len(items), deadline) if self.batch is None else self.batch
        end: float | None = None
        try:
            while len(results) < len(items) and not (end and time.monotonic() > end):
                self._fill(len(items))
                self._hand_out(items, waiting, results, doubled)
                for worker in self._heard():
                    self._take(worker, results)
                if end is None and any(worker.ready for worker in self._workers):  # also one that dies at once
                    end = time.monotonic() + seconds
                for worker in list(self._workers):
                    self._bury(worker, waiting, tries, results, deadline)
        finally:
            # Workers that are still busy were slower than another one, given up, or interrupted: the next call's
            # items have the same numbers.
            for worker in [worker for worker in self._workers if worker.item is not None]:
                self._drop(worker)
        self._fill(len(items))
        if len(results) < len(items):
            logger.warning(
                "%d of %d answers are not checked and count as not right: the time of their batch, %g s, was up. More "
                "workers, or a shorter deadline for an answer, check more.",
                *(len(items) - len(results), len(items), seconds),
            )
        ordered = [results.get(number, Unchecked("batch_timed_out")) for number in range(len(items))]
        self.counts.update(one.reason if isinstance(one, Unchecked) else "checked" for one in ordered)
        return ordered

    def _fill(self, items: int) -> None:
        """Start the missing workers, after the pause that follows a failed start."""
        while len(self._workers) < min(self.processes, items) and time.monotonic() >= self._next_start:
            self._workers.append(_started(self.task, self.megabytes, self.first))

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
                self.counts["twice"] += 1
                worker.send(oldest.item, items[oldest.item])

    def _heard(self) -> list[_Worker]:
        """Return the workers with output, after at most a short wait."""
        with selectors.DefaultSelector() as selector:
            for worker in self._workers:
                assert worker.process.stdout is not None
                selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
            return [key.data for key, _ in selector.select(timeout=0.05)]

    def _take(self, worker: _Worker, results: dict[int, Any]) -> None:
        """Read a worker's output; the first result of an item counts."""
        assert worker.process.stdout is not None
        worker.read += os.read(worker.process.stdout.fileno(), 1 << 16)
        *lines, worker.read = worker.read.split(b"\n")
        for line in lines:
            reply = json.loads(line)
            if reply == "ready":
                worker.ready, self._failed_starts = True, 0
                self.counts["ready"] += 1
                continue
            number, result, *error = reply
            if worker.item == number and error != [""]:  # else it ends, and takes no other
                worker.item = None
            results.setdefault(number, Unchecked("error", error[0]) if any(error) else result)

    def _bury(
        self, worker: _Worker, waiting: deque[int], tries: list[int], results: dict[int, Any], deadline: float
    ) -> None:
        """Remove a worker that died, or exceeded the time of its start or item, and reassign or give up the item."""
        died, age = worker.process.poll() is not None, time.monotonic() - worker.since
        late = age > (START_S if not worker.ready else inf if worker.item is None else deadline)
        if not (died or late):
            return
        self._drop(worker)
        item = worker.item
        if not worker.ready:
            self._failed_start(f"ended (exit code {worker.process.returncode})" if died else f"took {START_S:g} s")
        elif item is None or item in results:
            return
        elif late:
            results[item] = Unchecked("timed_out")
        elif not any(other.item == item for other in self._workers):
            tries[item] += 1
            if tries[item] < self.attempts:
                waiting.append(item)
            else:
                results[item] = Unchecked("died")

    def _failed_start(self, what: str) -> None:
        """Report a failed start: before any worker was ready it is the task's fault; later the machine's, which may
        have room again."""
        self._failed_starts += 1
        if not self.counts["ready"]:
            raise ConfigError(f"A worker for '{self.task}' {what} before it was ready; its message is above.")
        if self._failed_starts >= STARTS and not any(worker.ready for worker in self._workers):
            raise CheckerError(
                f"Workers for '{self.task}' cannot start any more: the last of {STARTS} in a row {what} before it was "
                "ready. The machine may be short of memory: use fewer `workers`, or free some, and resume the run."
            )
        self._next_start = time.monotonic() + min(PAUSE_S * 2.0 ** (self._failed_starts - 1), 60.0)

    def _drop(self, worker: _Worker) -> None:
        _end(worker)
        self.counts["ended"] += 1
        self._workers.remove(worker)

    def close(self) -> None:
        _end_all(self._workers)


class Pooled:
    """Base of domains whose `checker` ("module:function") runs in a pool, made with the first items: `workers`
    processes, each item within `deadline` seconds."""

    checker: str
    workers: int
    deadline: float
    _pool: Workers | None = None

    def checked(self, items: Sequence[Any], deadline: float | None = None, first: Any = None) -> list[Any]:
        """Return the checker's result of each item. deadline: for these items alone; first: as in Workers."""
        if items and self._pool is None:
            self._pool = Workers(self.checker, self.workers, self.deadline, first=first)
        return [] if self._pool is None or not items else self._pool.map(items, deadline)

    def close(self) -> None:
        """End the processes; a later item starts new ones."""
        if self._pool is not None:
            self._pool.close()

    def __getstate__(self) -> dict[str, Any]:  # processes do not travel: data sets pickle their domain
        return {**self.__dict__, "_pool": None}


def batch_seconds(items: int, deadline: float) -> float:
    """Return the time limit of a batch: 30 deadlines, or a twentieth of one for each item, if that is more. With the
    default deadline of 10 s that is 5 minutes for up to 600 items, and 512 s for 1,024."""
    return max(30.0, items / 20) * deadline


def _started(task: str, megabytes: int, first: Any) -> _Worker:
    command = [sys.executable, "-m", "countdown_selfplay.worlds.worker", task, str(megabytes), json.dumps(first)]
    here = str(Path(__file__).parents[2])
    paths = dict.fromkeys([here, *(path for path in sys.path if path)])
    fixed = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}  # the order of sets is that of every process
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **fixed}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    return _Worker(process, since=time.monotonic())


def _end(worker: _Worker) -> None:
    worker.process.kill()
    worker.process.wait()
    for pipe in (worker.process.stdin, worker.process.stdout):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):  # its remaining input
                pipe.close()


def _end_all(workers: list[_Worker]) -> None:
    while workers:
        _end(workers.pop())
