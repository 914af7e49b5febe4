"""`countdown-selfplay report`: one self-contained page about one or several run folders. Loads no torch."""

from __future__ import annotations

import math
from pathlib import Path

from ..errors import ConfigError
from ..evaluation.report import write_report
from .countdown_options import OneLineParser, RawDescription

HELP = "Write report.html of one run, or compare several side by side"

EPILOG = """\
examples: countdown-selfplay report runs/tiny-joint
          countdown-selfplay report runs/truncate runs/fill --output comparison.html

Reads run.json, metrics.jsonl and, where they are, samples.jsonl and evaluation.json; also writes plots/*.svg into each
run folder.
exit codes: 0 the page is written, 2 a run folder is missing or damaged"""


def main(argv: list[str]) -> int:
    """Write the page and print its path."""
    parser = OneLineParser(
        prog="countdown-selfplay report", description=HELP + ".", epilog=EPILOG, formatter_class=RawDescription
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="the output_dir of a run")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="default: report.html in the run folder; here for several",
    )
    parser.add_argument(
        "--yardstick",
        action="append",
        default=[],
        metavar="NAME=RATE",
        help="a line in the chart of solved targets, such as large=0.6 for a larger model's pass@4; may be repeated",
    )
    options = parser.parse_args(argv)
    output = options.output
    if output is None:
        output = options.runs[0] / "report.html" if len(options.runs) == 1 else Path("report.html")
    print(write_report(options.runs, output, dict(map(_yardstick, options.yardstick))))
    return 0


def _yardstick(word: str) -> tuple[str, float]:
    name, _, rate = word.rpartition("=")
    try:
        value = float(rate)
    except ValueError:
        value = math.nan
    if not name or not 0 <= value <= 1:
        raise ConfigError(f"`--yardstick` ({word}) must be a name and a rate from 0 to 1, such as large=0.6.")
    return name, value
