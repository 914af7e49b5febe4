"""`countdown-selfplay compare`: which of several evaluations is better, with paired intervals. Loads no torch."""

import argparse
import json
from pathlib import Path

from ...cli.plain import add_options, parser_of, write_output
from ...errors import ConfigError
from ...evaluation.terminal import aligned
from .. import compare as comparing

EPILOG = """\
An arm is a file that `eval --output` wrote, a run folder (its evaluation.json, after training; RUN:before for before),
or name=PATH,PATH with one path or pattern per training seed. The first arm is the baseline.

examples: countdown-selfplay compare sft.jsonl rloo.jsonl --output comparison
          countdown-selfplay compare start=runs/a:before joint=runs/a
          countdown-selfplay compare plain='plain-*.jsonl' joint=joint-0.jsonl,joint-1.jsonl,joint-2.jsonl
exit codes: 0 compared, 2 wrong input"""


def main(argv: list[str]) -> int:
    options = parse(argv)
    if len(options.arms) < 2:
        raise ConfigError(f"A comparison needs at least two arms, got '{options.arms[0]}' alone.")
    arms = comparing.load_arms(options.arms)
    differing = comparing.check_settings(arms)
    if differing is not None and not options.allow_different_settings:
        raise ConfigError(
            f"{differing}; evaluate both alike, or pass --allow_different_settings to compare them all the same."
        )
    arms = comparing.aligned_arms(arms, options.common, "pass --common to compare on the common ones only")
    comparison = comparing.compare_arms(arms, options.ks, options.resamples, options.seed)
    remarks = [*comparison.notes(), *comparing.unlike_precisions(arms)]
    for result in (result for arm in arms for result in arm.results if result.truncated_rate > 0.01):
        remarks.append(
            f"Warning: {result.truncated_rate:.1%} of the answers in '{result.path}' were cut at the token budget and "
            "count as wrong; evaluate with a larger --max_new_tokens."
        )
    if differing is not None:
        remarks.append(f"Different settings are compared: {differing}.")
    print("\n".join([aligned(comparing.rows_of(comparison)), *remarks]))
    if options.output is not None:
        from ..report.pictures import svg

        texts = {
            "comparison.md": comparing.markdown(comparing.rows_of(comparison), remarks),
            "comparison.svg": svg(comparing.figure(comparison)),
            "comparison.json": json.dumps({**comparison.to_dict(), "notes": remarks}, indent=1) + "\n",
        }
        write_output(options.output, {options.output / name: text for name, text in texts.items()})
    return 0


def parse(argv: list[str]) -> argparse.Namespace:
    """Parse the command line; `--allow-different-settings` and `--allow_different_settings` are the same."""
    parser = parser_of("compare", EPILOG)
    parser.add_argument("arms", nargs="+", metavar="ARM", help="see below")
    parser.add_argument("--ks", type=int, nargs="+", metavar="K", help="default: the powers of two up to n")
    parser.add_argument("--common", action="store_true", help="compare on the problems that all have")
    parser.add_argument("--allow_different_settings", "--allow-different-settings", action="store_true",
                        help="compare in spite of another temperature, budget, prompt or rule set")  # fmt: skip
    parser.add_argument("--resamples", type=int, default=10_000, metavar="N", help="of the bootstrap (10000)")
    add_options(parser, seed="of the bootstrap (0)")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="write comparison.md, .svg and .json")
    return parser.parse_args(argv)
