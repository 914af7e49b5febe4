"""Several trainers in one process, one optimizer step at a time, with exclusive times per phase."""

from __future__ import annotations

import functools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import TrainerCallback


def now() -> tuple[float, float]:
    """Wall and process CPU seconds, after the device has finished what was asked of it."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter(), time.process_time()


class Phases:
    """Exclusive wall and CPU seconds per phase: an inner phase's time is not counted in the outer one's.

    `on`: off, nothing is timed (on a GPU each boundary waits for the device, so totals are taken with it off).
    """

    def __init__(self) -> None:
        self.on = True
        self.wall: dict[str, float] = defaultdict(float)
        self.cpu: dict[str, float] = defaultdict(float)
        self._inner: list[list[float]] = []  # wall and CPU seconds spent in phases inside the open ones

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        if not self.on:
            yield
            return
        start = now()
        self._inner.append([0.0, 0.0])
        try:
            yield
        finally:
            inner = self._inner.pop()
            spent = [end - begin for end, begin in zip(now(), start, strict=True)]
            self.wall[name] += spent[0] - inner[0]
            self.cpu[name] += spent[1] - inner[1]
            if self._inner:
                self._inner[-1] = [a + b for a, b in zip(self._inner[-1], spent, strict=True)]

    def wrapped(self, function: Callable[..., Any], name: str | Callable[[], str]) -> Callable[..., Any]:
        """The function, timed as phase `name` (or as what `name()` says at the call)."""

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self(name() if callable(name) else name):
                return function(*args, **kwargs)

        return timed

    def wrap(self, owner: Any, attribute: str, name: str | Callable[[], str]) -> None:
        if hasattr(owner, attribute):
            setattr(owner, attribute, self.wrapped(getattr(owner, attribute), name))

    def pop(self) -> tuple[dict[str, float], dict[str, float]]:
        """Seconds since the last call, and a clean slate."""
        found = dict(self.wall), dict(self.cpu)
        self.wall.clear()
        self.cpu.clear()
        return found


class _Gate(TrainerCallback):
    """Stops training before each optimizer step until it is told to go on."""

    def __init__(self) -> None:
        self.go, self.arrived = threading.Semaphore(0), threading.Semaphore(0)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.arrived.release()
        self.go.acquire()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.arrived.release()


class Paced:
    """A trainer in a thread of its own that takes one optimizer step when told to; only one thread runs at a time.

    A step is all from one step's begin to the next one's: sampling, loss, optimizer, logging, and fetching the next
    rows.
    """

    def __init__(self, trainer: Any) -> None:
        self.trainer, self.gate = trainer, _Gate()
        self.error: BaseException | None = None
        trainer.add_callback(self.gate)
        self.thread = threading.Thread(target=self._train, daemon=True)
        self.thread.start()
        self._wait()

    def _train(self) -> None:
        try:
            self.trainer.train()
        except BaseException as error:  # handed to the thread that waits, which raises it
            self.error = error
            self.gate.arrived.release()

    def _wait(self) -> None:
        self.gate.arrived.acquire()
        if self.error is not None:
            raise self.error

    def step(self) -> tuple[float, float]:
        """Wall and CPU seconds of one optimizer step."""
        wall, cpu = now()
        self.gate.go.release()
        self._wait()
        after = now()
        return after[0] - wall, after[1] - cpu

    def join(self) -> None:
        self.thread.join()
