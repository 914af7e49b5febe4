"""Several trainers in one process, one optimizer step at a time, with exclusive times per phase."""

from __future__ import annotations

import functools
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from transformers import TrainerCallback

GPU = torch.cuda.is_available()


def now() -> tuple[float, float]:
    """Wall and process CPU seconds, after the device has finished what was asked of it."""
    if GPU:
        torch.cuda.synchronize()
    return time.perf_counter(), time.process_time()


class _Phase:
    """Around a stretch of code; a class and not a generator, for a round has hundreds of them."""

    def __init__(self, phases: Phases, name: str) -> None:
        self.phases, self.name, self.on = phases, name, phases.on

    def __enter__(self) -> None:
        if self.on:
            self.phases._inner.append([0.0, 0.0])
            self.start = now()

    def __exit__(self, *error: object) -> None:
        if self.on:
            wall, cpu = now()
            wall, cpu = wall - self.start[0], cpu - self.start[1]
            phases = self.phases
            inner = phases._inner.pop()
            phases.wall[self.name] += wall - inner[0]
            phases.cpu[self.name] += cpu - inner[1]
            if phases._inner:
                phases._inner[-1][0] += wall
                phases._inner[-1][1] += cpu


class Phases:
    """Exclusive wall and CPU seconds per phase: an inner phase's time is not counted in the outer one's.

    `on`: off, nothing is timed (on a GPU each boundary waits for the device, so totals are taken with it off).
    """

    def __init__(self) -> None:
        self.on = True
        self.wall: dict[str, float] = defaultdict(float)
        self.cpu: dict[str, float] = defaultdict(float)
        self._inner: list[list[float]] = []  # wall and CPU seconds spent in phases inside the open ones

    def __call__(self, name: str) -> _Phase:
        return _Phase(self, name)

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
        self.over = False

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.arrived.release()
        self.go.acquire()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.over = True
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
        """Wall and CPU seconds of one optimizer step. RuntimeError if training has ended; an error of the trainer's is
        raised here."""
        if self.gate.over:
            raise RuntimeError("The trainer has taken its last step.")
        wall, cpu = now()
        self.gate.go.release()
        self._wait()
        after = now()
        return after[0] - wall, after[1] - cpu

    def join(self) -> None:
        self.thread.join()
