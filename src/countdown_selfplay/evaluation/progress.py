"""One line on stderr that says how far a long evaluation is."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager
from typing import TextIO

_REDRAW = 0.2  # seconds between two drawings on a terminal
_REPEAT = 30.0  # seconds between two lines where stderr is a file or a pipe


def duration(seconds: float) -> str:
    """ "40 s", "3 min", "2 h 5 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class ProgressLine(AbstractContextManager["ProgressLine"]):
    """Call it with (done, total) as often as you like, as a context manager.

    On a terminal one line is drawn over and ends with a newline; elsewhere a whole line is written every 30 seconds,
    and none for what is over before that. `enabled`: False on all processes but one, and under --disable_tqdm.
    """

    def __init__(self, label: str, unit: str = "answers", enabled: bool = True, stream: TextIO | None = None) -> None:
        self.label, self.unit, self.enabled = label, unit, enabled
        self.stream = sys.stderr if stream is None else stream
        self.terminal = self.stream.isatty()
        self.start = time.monotonic()
        self.said = float("-inf") if self.terminal else self.start
        self.drawn = False  # on the terminal

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        pause = _REDRAW if self.terminal else _REPEAT
        last = self.terminal and done >= total
        if not self.enabled or (now - self.said < pause and not last):
            return
        self.said = now
        text = f"{self.label}: {done} of {total} {self.unit}, {duration(now - self.start)}"
        if 0 < done < total:
            text += f", about {duration((now - self.start) * (total - done) / done)} left"
        if not self.terminal:
            print(text, file=self.stream, flush=True)
            return
        self.stream.write(f"\r{text}\x1b[K")  # clears the rest of the line: a training bar may have been there
        self.stream.flush()
        self.drawn = True

    def __exit__(self, *_: object) -> None:
        if self.drawn:
            self.stream.write("\n")
            self.stream.flush()
            self.drawn = False
