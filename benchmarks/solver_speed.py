"""Speed of the exact solver beside a naive recursive search with Fractions, on the same problems; and of the problem
generator beside that of reasoning-gym's Countdown task, which has no solver, where that package is installed.

python benchmarks/solver_speed.py [--seconds 2] [--json FILE]

Contenders take turns within a case, in one process on one core; the table shows the median and the least of the turns,
in CPU time of the process, so that other work on the machine counts as little as possible, and how many times longer
than the first contender each takes. What all cores give is measured in wall time, one thread and all in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from countdown_selfplay.countdown import (
    Problem,
    ProblemSpec,
    feature_matrix,
    generate_problems,
    is_solvable,
    reachable_counts,
    solvable_arrays,
    solve,
)
from countdown_selfplay.countdown.exact import solver

try:
    from reasoning_gym.games.countdown import CountdownConfig, CountdownDataset
except ImportError:
    CountdownDataset = None

TARGETS = (10, 100)
BATCH = {3: 16384, 4: 4096, 5: 256, 6: 32}
GOALS = {
    "decide k=4": 5,
    "decide k=5": 150,
    "decide k=6": 5000,
    "all targets k=4": 10,
    "one problem k=6, to 999": 20000,
}
"""Microseconds per problem, or per set of numbers."""


def naive(values: list[Fraction], target: int) -> bool:
    """The textbook search: combine any two values in six ways and recurse."""
    if len(values) == 1:
        return values[0] == target
    for i, j in combinations(range(len(values)), 2):
        a, b = values[i], values[j]
        rest = [value for n, value in enumerate(values) if n != i and n != j]
        results = [a + b, a - b, b - a, a * b]
        if b:
            results.append(a / b)
        if a:
            results.append(b / a)
        if any(naive([*rest, result], target) for result in results):
            return True
    return False


def draw(k: int, count: int, seed: int, distinct: bool = False, largest: int = 99) -> tuple[np.ndarray, np.ndarray]:
    """Numbers (count, k) from 1 to `largest` and targets (count,) from 10..100."""
    generator = np.random.default_rng(seed)
    numbers = generator.integers(1, largest + 1, (count, k))
    if distinct:
        numbers = np.stack([generator.permutation(99)[:k] + 1 for _ in range(count)])
    return numbers, generator.integers(TARGETS[0], TARGETS[1] + 1, count)


def cases() -> dict[str, dict[str, tuple[Callable[[], Any], int]]]:
    """Case -> contender -> (one turn, problems in a turn)."""
    found: dict[str, dict[str, tuple[Callable[[], Any], int]]] = {}
    for k, batch in BATCH.items():
        numbers, targets = draw(k, batch, seed=k)
        found[f"decide k={k}"] = {"batch": (lambda n=numbers, t=targets: solvable_arrays(n, t, workers=1), batch)}
        if k < 5:  # at k=5 one problem takes the naive search up to a second, at k=6 minutes
            few = 20 if k == 3 else 2
            chosen = zip(numbers[:few].tolist(), targets[:few].tolist(), strict=True)
            rows = [([Fraction(number) for number in row], target) for row, target in chosen]
            found[f"decide k={k}"]["naive"] = (lambda rows=rows: [naive(row, t) for row, t in rows], few)
        sets, _ = draw(k, max(batch // 4, 2), seed=k, distinct=True)
        found[f"all targets k={k}"] = {"batch": (lambda s=sets: reachable_counts(s, *TARGETS, workers=1), len(sets))}
        solvable = generate_problems({3: 2000, 4: 1000, 5: 100, 6: 4}[k], ProblemSpec(operands=(k,)), seed=7)
        found[f"features k={k}"] = {"batch": (lambda p=solvable: feature_matrix(p, workers=1), len(solvable))}
        singles = zip(numbers[:5].tolist(), targets[:5].tolist(), strict=True)
        single = [Problem(tuple(row), target) for row, target in singles]
        found[f"one problem k={k}"] = {"solve": (lambda s=single: uncached(solve, s), len(single))}
    numbers, targets = draw(6, 12, seed=9, largest=999)
    large = [Problem(tuple(row), t) for row, t in zip(numbers.tolist(), targets.tolist(), strict=True)]
    found["one problem k=6, to 999"] = {"solve": (lambda: uncached(solve, large), len(large))}
    for k in (3, 4):
        found[f"generate k={k}"] = generators(k)
    return found


def generators(k: int) -> dict[str, tuple[Callable[[], Any], int]]:
    """Solvable problems of k numbers in the same ranges: ours, each as likely as any other, and reasoning-gym's, which
    it builds from a random expression."""
    ours = (lambda: generate_problems(500, ProblemSpec(operands=(k,)), seed=1), 500)
    if CountdownDataset is None:
        return {"ours": ours}
    ranges = {"min_value": 1, "max_value": 99, "min_target": TARGETS[0], "max_target": TARGETS[1]}
    task = CountdownDataset(CountdownConfig(min_numbers=k, max_numbers=k, seed=0, size=20, **ranges))
    return {"ours": ours, "reasoning-gym": (lambda: [task[i] for i in range(20)], 20)}


def all_cores(seconds: float) -> dict[str, dict[str, float]]:
    """Wall microseconds per problem with one thread and with one per core, and their ratio."""
    figures = {}
    for k, batch in {4: 65536, 5: 4096, 6: 128}.items():
        numbers, targets = draw(k, batch, seed=k)
        turns: dict[int | None, list[float]] = {1: [], None: []}
        stop = time.monotonic() + seconds
        while time.monotonic() < stop or min(map(len, turns.values())) < 3:
            for workers, own in turns.items():
                start = time.perf_counter()
                solvable_arrays(numbers, targets, workers=workers)
                own.append((time.perf_counter() - start) / batch * 1e6)
        ratio = statistics.median(one / many for one, many in zip(turns[1], turns[None], strict=True))
        figures[f"decide k={k}"] = {"one": min(turns[1]), "all": min(turns[None]), "times_faster": ratio}
    return figures


def uncached(function: Callable[[Problem], Any], problems: list[Problem]) -> None:
    """Call it on each problem with an empty cache."""
    solver._solve_sorted.cache_clear()
    for problem in problems:
        function(problem)


def measure(contenders: dict[str, tuple[Callable[[], Any], int]], seconds: float) -> dict[str, dict[str, float]]:
    """Microseconds of CPU per problem: median and least over alternating turns."""
    turns: dict[str, list[float]] = {name: [] for name in contenders}
    for turn, _ in contenders.values():
        turn()  # plans and patterns are made once per process
    stop = time.monotonic() + seconds
    while time.monotonic() < stop or min(map(len, turns.values())) < 3:
        for name, (turn, count) in contenders.items():
            start = time.process_time()
            turn()
            turns[name].append((time.process_time() - start) / count * 1e6)
    first = next(iter(turns.values()))
    return {
        name: {
            "median": statistics.median(own),
            "least": min(own),
            "turns": len(own),
            "times_first": statistics.median(mine / ours for mine, ours in zip(own, first, strict=True)),
        }
        for name, own in turns.items()
    }


def command_seconds() -> float:
    """Wall time of `countdown-selfplay solve 3 3 8 8 --target 24` in a fresh process, least of five."""
    command = [sys.executable, "-m", "countdown_selfplay.cli.main", "solve", "3", "3", "8", "8", "--target", "24"]
    times = []
    for _ in range(5):
        start = time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.monotonic() - start)
    return min(times)


def check() -> None:
    """The contenders agree: a benchmark of wrong answers would be worth nothing."""
    numbers, targets = draw(4, 30, seed=99)
    found = solvable_arrays(numbers, targets)
    for row, target, solvable in zip(numbers.tolist(), targets.tolist(), found, strict=True):
        assert solvable == naive([Fraction(x) for x in row], target) == is_solvable(Problem(tuple(row), target))


def main() -> None:
    """Measure every case and print the table, or with --json also write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="wall time per case")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    check()
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, load {os.getloadavg()[0]:.1f}")
    print(f"{'case':<24} {'contender':<14} {'median us':>12} {'least us':>12} {'x first':>9} {'goal us':>8}")
    figures: dict[str, Any] = {}
    for case, contenders in cases().items():
        figures[case] = measure(contenders, options.seconds)
        for name, found in figures[case].items():
            goal = f"{GOALS[case]:>8.0f}" if case in GOALS and name != "naive" else ""
            row = (
                f"{case:<24} {name:<14} {found['median']:>12.2f} {found['least']:>12.2f} {found['times_first']:>9.1f}"
            )
            print(f"{row} {goal}".rstrip())
    print(f"reasoning-gym: {'not installed' if CountdownDataset is None else version('reasoning-gym')}")
    figures["all_cores"] = all_cores(options.seconds)
    for case, found in figures["all_cores"].items():
        one, many = f"one thread {found['one']:.2f} us", f"{os.cpu_count()} cores {found['all']:.2f} us"
        print(f"{case}, wall time: {one}, {many}, {found['times_faster']:.2f} times faster")
    figures["command_seconds"] = command_seconds()
    print(f"countdown-selfplay solve, fresh process: {figures['command_seconds']:.2f} s (goal 1.5 s)")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
