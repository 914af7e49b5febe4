"""How long a symbolic proposer takes, on one core: `python benchmarks/proposer_speed.py` (a minute; --big: three).

Candidates: 1,000 seeds are mutated, filtered, featurised and scored by a predictor, as in a refresh. Archive:
distances of 1,000 candidates to problems that were made by the same mutations; of repeated searches the best, and what
adding all problems took. Process time, so that what else the machine does counts little. Needs the extra `symbolic`.
"""

from __future__ import annotations

import argparse
import os
import time
from types import SimpleNamespace

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

from countdown_selfplay.countdown import CountdownDomain, ProblemSpec, generate_problems
from countdown_selfplay.proposers.symbolic.difficulty import Predictor
from countdown_selfplay.proposers.symbolic.selection import Nearest, Selection

COUNT, REPEATS = 1000, 15
LIMITS = {3: 50, 4: 100, 100_000: 100, 1_000_000: 500}
"""Milliseconds that are asked for."""


def mutants(domain, seeds, count, seed):
    generator = np.random.default_rng(seed)
    chosen = [seeds[i] for i in generator.integers(len(seeds), size=count)]
    numbers = generator.choice(domain.mutations.number_actions, count).tolist()
    kinds = generator.choice(domain.mutations.expression_actions, count).tolist()
    return domain.mutations.mutate(chosen, numbers, kinds, seed)


def refresh(domain, seeds, predictor, archive, seed):
    """What a refresh does with its candidates; the valid ones' points."""
    made = mutants(domain, seeds, COUNT, seed)
    kept = {
        domain.key(problem): row
        for row, (problem, reason) in enumerate(zip(made.problems, made.reasons, strict=True))
        if reason == "ok" and not domain.is_held_out(problem)
    }
    rows = list(kept.values())
    problems = [made.problems[row] for row in rows]
    p = predictor.estimate(SimpleNamespace(domain=domain), problems, made.features[rows])
    points = domain.mutations.novelty(problems, 13, made.features[rows])
    selection = Selection()
    selection.select(p, archive.distance(points) / 13**0.5, 256, seed)
    return points


def candidates(operands):
    domain = CountdownDomain(ProblemSpec((operands,)))
    seeds = generate_problems(1000, domain.spec, seed=1)
    predictor, archive = Predictor(), Nearest(13)
    known = domain.mutations.features(seeds)
    predictor.learn(known, np.random.default_rng(0).integers(9, size=len(seeds)) / 8, 8)
    archive.add(domain.mutations.novelty(seeds, 13, known))
    times = []
    for repeat in range(REPEATS):
        start = time.process_time()
        points = refresh(domain, seeds, predictor, archive, repeat)
        times.append(1000 * (time.process_time() - start))
    print(
        f"{COUNT} candidates of {operands} numbers: best {min(times):.0f} ms, median {np.median(times):.0f} ms "
        f"({len(points)} valid; asked for: {LIMITS[operands]} ms)"
    )


def archive(size):
    domain = CountdownDomain(ProblemSpec((3, 4)))
    seeds = generate_problems(2000, domain.spec, seed=1)
    parts, total, seed = [], 0, 0
    while total < size + COUNT:
        made = mutants(domain, seeds, 20_000, seed)
        rows = [row for row, reason in enumerate(made.reasons) if reason == "ok"]
        parts.append(domain.mutations.novelty([made.problems[row] for row in rows], 13, made.features[rows]))
        total, seed = total + len(rows), seed + 1
    points = np.concatenate(parts)[: size + COUNT]
    for columns in (13, 7):
        index = Nearest(columns)
        start = time.process_time()
        for first in range(0, size, 1000):
            index.add(points[first : min(first + 1000, size), :columns])
        built, times = time.process_time() - start, []
        for _ in range(5):
            start = time.process_time()
            index.distance(points[size:, :columns])
            times.append(1000 * (time.process_time() - start))
        print(
            f"{COUNT} distances to {size:,} problems, {columns} features: best {min(times):.0f} ms, median "
            f"{np.median(times):.0f} ms (asked for: {LIMITS[size]} ms); added 1,000 at a time in {built:.1f} s"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--big", action="store_true", help="An archive of a million problems too.")
    asked = parser.parse_args()
    for operands in (3, 4):
        candidates(operands)
    for size in (100_000, *([1_000_000] if asked.big else [])):
        archive(size)
