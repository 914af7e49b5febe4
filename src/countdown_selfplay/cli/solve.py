"""`countdown-selfplay solve`: print a solution of one problem, or count its solutions. Loads no torch."""

from __future__ import annotations

import json

from ..countdown import count_solutions, solve
from .plain import add_rule_options, parser_of, problem_of, rules_of

EPILOG = """\
example: countdown-selfplay solve 3 3 8 8 --target 24

exit codes: 0 there is a solution, 1 there is none, 2 wrong input"""


def main(argv: list[str]) -> int:
    """Print a solution, or with --count the number of solutions. Returns 0 if there is one, else 1."""
    parser = parser_of("solve", EPILOG)
    parser.add_argument("numbers", nargs="+", metavar="NUMBER", help="1 to 6 positive integers")
    parser.add_argument("--target", required=True, metavar="T", help="the integer to reach")
    parser.add_argument("--count", action="store_true", help="print the number of distinct solutions instead")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_rule_options(parser, answers=False)
    options = parser.parse_args(argv)
    problem, rules = problem_of(options.numbers, options.target), rules_of(options)
    solution = solve(problem, rules)
    count = count_solutions(problem, rules) if options.count else None
    if options.json:
        result = {"numbers": list(problem.numbers), "target": problem.target, "solution": solution}
        print(json.dumps(result if count is None else {**result, "count": count}))
    elif count is not None:
        print(count)
    else:
        none = f"No expression over {', '.join(map(str, problem.numbers))} equals {problem.target}."
        print(none if solution is None else solution)
    return 0 if solution is not None else 1
