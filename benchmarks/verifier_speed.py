"""Speed of the verifier on typical responses of 1,000 characters, beside two other checkers of the same responses: a
regex with `ast` and Fractions, and the scorer of reasoning-gym's Countdown task where that package is installed.

python benchmarks/verifier_speed.py [--seconds 2] [--json FILE]

Contenders take turns in one process on one core; the table shows CPU time per response, and how many times longer than
`verify` each takes, as the median over the turns of the ratio within a turn. The checker with `ast` is what people
write in ten lines: it is fooled by `1_000` and overflows the stack on deep input, and stands here for its speed alone.
reasoning-gym compares floats, and knows no tags: it gets what the same regex finds.
"""

from __future__ import annotations

import argparse
import ast
import importlib.metadata
import json
import operator
import os
import platform
import re
import statistics
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from countdown_selfplay.countdown import Problem, generate_problems, solve, verify, verify_batch

GOAL = 8.0
"""Microseconds for a typical response."""

LENGTH = 1000
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def with_ast(text: str, problem: Problem) -> float:
    """1.0, 0.1 or 0.0 by a regex, Python's parser and Fractions."""
    found = re.findall(r"<answer>(.*?)</answer>", text, re.DOTALL)
    if not found:
        return 0.0
    numbers: list[int] = []

    def value(node: ast.expr) -> Fraction:
        if isinstance(node, ast.BinOp):
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            numbers.append(node.value)
            return Fraction(node.value)
        raise ValueError

    try:
        result = value(ast.parse(found[-1].strip(), mode="eval").body)
    except (ValueError, SyntaxError, KeyError, ZeroDivisionError):
        return 0.0
    return 1.0 if sorted(numbers) == sorted(problem.numbers) and result == problem.target else 0.1


def with_reasoning_gym() -> Callable[[str, Problem], float] | None:
    """The scorer of reasoning-gym's Countdown task behind the same regex; None if it is not installed."""
    try:
        from reasoning_gym.games.countdown import CountdownConfig, CountdownDataset
    except ImportError:
        return None
    task = CountdownDataset(CountdownConfig(seed=0, size=1))

    def score(text: str, problem: Problem) -> float:
        found = re.findall(r"<answer>(.*?)</answer>", text, re.DOTALL)
        metadata = {"numbers": list(problem.numbers), "target": problem.target}
        return float(task.score_answer(found[-1].strip() if found else None, {"metadata": metadata}))

    return score


def responses(count: int) -> tuple[list[str], list[Problem]]:
    """Responses that think in about 1,000 characters; two thirds end correct, one third with a wrong value."""
    problems = generate_problems(count, seed=1)
    texts = []
    for i, problem in enumerate(problems):
        answer = solve(problem) if i % 3 else " + ".join(map(str, problem.numbers))
        end = f"</think>\n<answer> {answer} </answer>"
        numbers = ", ".join(map(str, problem.numbers))
        thought = f"Let me combine {numbers} to get {problem.target}. {problem.numbers[0]} * 2 is not it. "
        texts.append(("<think>" + thought * 20)[: LENGTH - len(end)] + end)
    return texts, problems


def main() -> None:
    """Measure, print the table, and with --json also write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="wall time for all turns")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    texts, problems = responses(300)
    pairs = list(zip(texts, problems, strict=True))
    assert [verify(*pair).score for pair in pairs] == [with_ast(*pair) for pair in pairs]
    contenders: dict[str, Callable[[], Any]] = {
        "verify": lambda: [verify(text, problem) for text, problem in pairs],
        "verify_batch": lambda: verify_batch(texts, problems),
        "regex and ast": lambda: [with_ast(text, problem) for text, problem in pairs],
    }
    gym = with_reasoning_gym()
    if gym is not None:
        assert [gym(*pair) == 1.0 for pair in pairs] == [verify(*pair).correct for pair in pairs]
        contenders["reasoning-gym"] = lambda: [gym(text, problem) for text, problem in pairs]
    turns: dict[str, list[float]] = {name: [] for name in contenders}
    stop = time.monotonic() + options.seconds
    while time.monotonic() < stop or min(map(len, turns.values())) < 5:
        for name, turn in contenders.items():
            start = time.thread_time()
            turn()
            turns[name].append((time.thread_time() - start) / len(pairs) * 1e6)
    load = os.getloadavg()[0]
    print(f"Python {platform.python_version()}, {LENGTH} characters a response, goal {GOAL:.0f} us, load {load:.1f}")
    figures = {
        name: {
            "median": statistics.median(own),
            "least": min(own),
            "times_verify": statistics.median(mine / ours for mine, ours in zip(own, turns["verify"], strict=True)),
        }
        for name, own in turns.items()
    }
    for name, found in figures.items():
        print(
            f"{name:<14} median {found['median']:8.2f} us   least {found['least']:8.2f} us   "
            f"{found['times_verify']:6.1f} x verify"
        )
    version = "not installed" if gym is None else importlib.metadata.version("reasoning-gym")
    print(f"reasoning-gym: {version}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
