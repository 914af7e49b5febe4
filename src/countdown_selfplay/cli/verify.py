"""`countdown-selfplay verify`: judge one completion, or every row of a JSONL file. Loads no torch."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..countdown import Rules, Verdict, problem_from_row, verify
from ..data.jsonl import json_lines
from ..errors import ConfigError, DataError
from .plain import add_rule_options, parser_of, problem_of, rules_of

EPILOG = """\
examples: countdown-selfplay verify --numbers 3 3 8 8 --target 24 --completion "<answer> 8 / (3 - 8 / 3) </answer>"
          countdown-selfplay verify samples.jsonl

A row of the file has `completion` (text or chat messages) and `numbers` or `nums` with `target`, or `ground_truth`.
exit codes: 0 correct (a file: every row was judged), 1 not correct, 2 wrong input"""


def as_row(verdict: Verdict, rules: Rules) -> dict[str, Any]:
    """Return a verdict as plain JSON values (the exact value as text, "7/2"), with the rules applied."""
    return {
        "score": verdict.score,
        "reason": str(verdict.reason),
        "value": None if verdict.value is None else str(verdict.value),
        "expression": verdict.expression,
        "answers": verdict.n_answers,
        "rules": rules.to_dict(),
    }


def as_line(row: Mapping[str, Any]) -> str:
    """Format a verdict in one line: score, reason, value."""
    value = "no value" if row["value"] is None else f"value {row['value']}"
    return f"score {row['score']}  {row['reason']}  {value}"


def judged(path: Path, rules: Rules) -> Iterator[Verdict]:
    """Judge each row of a JSONL file. Raises DataError, which names row and column."""
    for number, row in json_lines(path):
        problem = problem_from_row(row, number - 1)
        if "completion" not in row:
            raise DataError(f"row {number - 1}, column 'completion': absent; it holds the text to judge.")
        yield verify(row["completion"], problem, rules)


def main(argv: list[str]) -> int:
    """Print the verdict on one completion (returns 0 if correct, else 1), or on every row of a file and a summary
    (returns 0)."""
    parser = parser_of("verify", EPILOG)
    parser.add_argument("file", nargs="?", help="a JSONL file of completions with their problems")
    parser.add_argument("--numbers", nargs="+", metavar="N", help="the problem's numbers")
    parser.add_argument("--target", metavar="T", help="the problem's target")
    parser.add_argument("--completion", metavar="TEXT", help="the text to judge; - reads standard input")
    parser.add_argument("--json", action="store_true", help="print one JSON object per completion")
    add_rule_options(parser, answers=True)
    options = parser.parse_args(argv)
    rules = rules_of(options)
    single = {name: vars(options)[name] for name in ("numbers", "target", "completion")}
    given = {f"--{name}": value is not None for name, value in single.items()}
    if options.file is not None:
        if any(given.values()):
            named = ", ".join(name for name, value in given.items() if value)
            raise ConfigError(f"A file brings its own problems; leave out {named}.")
        stream = judged(Path(options.file), rules)
    else:
        if not all(given.values()):
            missing = ", ".join(name for name, value in given.items() if not value)
            raise ConfigError(f"Give a file, or --numbers, --target and --completion; missing: {missing}.")
        problem = problem_of(options.numbers, options.target)
        text = sys.stdin.read() if options.completion == "-" else options.completion
        stream = iter([verify(text, problem, rules)])
    verdicts = []
    for verdict in stream:
        verdicts.append(verdict)
        row = as_row(verdict, rules)
        print(json.dumps(row) if options.json else as_line(row))
    if options.file is None:
        return 0 if verdicts[0].correct else 1
    if not options.json:
        reasons = Counter(str(verdict.reason) for verdict in verdicts).most_common()
        mean = sum(verdict.score for verdict in verdicts) / max(len(verdicts), 1)
        correct = sum(verdict.correct for verdict in verdicts)
        print(
            f"{len(verdicts)} completions, {correct} correct, mean score {mean:.4f}; answer rule {rules.answer_rule}"
        )
        print(", ".join(f"{reason} {count}" for reason, count in reasons))
    return 0
