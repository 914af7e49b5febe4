"""`countdown-selfplay playground`: a page that steps through the logged rounds of a run. Loads no torch."""

from pathlib import Path

from ...cli.plain import parser_of

EPILOG = """\
examples: countdown-selfplay playground runs/tiny-joint
          countdown-selfplay playground runs/tiny-joint --output games.html

Reads the run folder: run.json, metrics.jsonl and samples.jsonl, which holds 4 samples of each player and round unless
the run is played with --samples_per_log 1000, for example. One HTML file below 5 MB, of a long run with some rounds
left out. A playground page that is there is replaced, another file is not.
exit codes: 0 the page is written, 2 a run folder is missing or damaged, has no samples, or FILE cannot be written"""


def main(argv: list[str]) -> int:
    parser = parser_of("playground", EPILOG)
    parser.add_argument("run", type=Path, metavar="RUN", help="the output_dir of a run")
    parser.add_argument("--output", type=Path, metavar="FILE", help="default: playground.html in the run folder")
    parser.add_argument("--note", default="", metavar="TEXT", help="a line at its head, such as how it was recorded")
    options = parser.parse_args(argv)
    from ..report.playground import write_playground  # matplotlib; a wrong option is refused before

    print(write_playground(options.run, options.output, options.note))
    return 0
