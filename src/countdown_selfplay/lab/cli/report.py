"""`countdown-selfplay report`: one self-contained page about one or several run folders. Loads no torch."""

import argparse
import math
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ...cli.plain import parser_of
from ...errors import ConfigError, DataError

EPILOG = """\
examples: countdown-selfplay report runs/tiny-joint
          countdown-selfplay report runs/truncate runs/fill --output comparison.html
          countdown-selfplay report runs/tiny-joint --watch

Reads run.json, metrics.jsonl and, where they are, samples.jsonl and evaluation.json; of one run it also writes
plots/*.svg into the run folder. Several runs are compared on the held-out problems that all were evaluated on.
exit codes: 0 the page is written, 2 a run folder is missing or damaged"""


def main(argv: list[str]) -> int:
    parser = parser_of("report", EPILOG)
    add = parser.add_argument
    add("runs", nargs="+", type=Path, metavar="RUN", help="the output_dir of a run")
    add("--output", type=Path, metavar="FILE", help="default: report.html in the run folder; here for several")
    often = "rewrite the page while runs train, at most this often (30), until Ctrl-C; a browser reloads it"
    add("--watch", type=seconds, nargs="?", const=30.0, metavar="SECONDS", help=often)
    line = "a line in the chart of solved targets, such as large=0.6 for a larger model's pass@4; may be repeated"
    add("--yardstick", action="append", default=[], metavar="NAME=RATE", help=line)
    options = parser.parse_args(argv)
    yardsticks = dict(map(_yardstick, options.yardstick))
    if options.watch is not None:
        return watch(options.runs, options.output, options.watch, yardsticks)
    from ..report import write_report  # matplotlib; a wrong option is refused before

    print(write_report(options.runs, options.output, yardsticks))
    return 0


def watch(
    runs: list[Path],
    output: Path | None,
    every: float,
    yardsticks: dict[str, float] | None = None,
    pause: Callable[[float], object] = time.sleep,
) -> int:
    """Write the page, and again whenever a run has logged more; return 0 after an interrupt. A started run without a
    logged round is waited for. `pause`: sleeps so many seconds."""
    from ..report import write_report

    page, before, waits = None, None, False
    logs = [run / name for run in runs for name in ("metrics.jsonl", "evaluation.json")]
    try:
        while True:
            now = [path.stat().st_mtime_ns if path.exists() else 0 for path in logs]
            waiting = [str(run) for run in runs if page is None and _has_begun(run)]
            if waiting and not waits:
                print(f"Waiting for the first round of {', '.join(waiting)}; Ctrl-C ends the watch", flush=True)
            waits = bool(waiting)
            if now != before and not waits:
                try:
                    written = write_report(runs, output, yardsticks, reload=max(1, round(every)))
                except DataError:  # an incomplete line; a fault before the first page is raised
                    if page is None:
                        raise
                else:
                    if page is None:
                        print(f"{written}; Ctrl-C ends the watch", flush=True)
                    page, before = written, now
            pause(every)
    except KeyboardInterrupt:
        with suppress(DataError):  # Ctrl-C in mid-line: the last whole page stays
            write_report(runs, output, yardsticks)  # without the reload
        return 0


def _has_begun(run: Path) -> bool:
    """Return whether a run exists that has not logged a round."""
    begun = any((run / name).exists() for name in (".lock", "run.json"))
    return begun and not any((run / name).exists() for name in ("metrics.jsonl", "iterated.json"))


def seconds(word: str) -> float:
    """Parse the value of `--watch`."""
    value = _number(word)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"'{word[:40]}' is not a number of seconds above 0")
    return value


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return math.nan


def _yardstick(word: str) -> tuple[str, float]:
    name, _, rate = word.rpartition("=")
    value = _number(rate)
    if not name or not 0 <= value <= 1:
        raise ConfigError(f"`--yardstick` ({word}) must be a name and a rate from 0 to 1, such as large=0.6.")
    return name, value
