"""How busy slow scorers keep their processes: the time of a round's scoring over answers x milliseconds / workers.

    python benchmarks/scoring.py --answers 512 --milliseconds 50 --workers 2 4 8

Each answer takes so many milliseconds in the pool that mathematics and reasoning_gym share (worlds/workers.py); it
sleeps, so that any number of workers is measured on any number of cores. The first call, in which the processes start,
is apart. 1.0 is ideal; the goal is at most 1.2. docs/domains.md has a run.
"""

from __future__ import annotations

import argparse
import os
import time

from countdown_selfplay.worlds.workers import Workers


def score(milliseconds: float) -> float:
    """A scorer that takes its time."""
    time.sleep(milliseconds / 1000)
    return 1.0


def ratio(pool: Workers, answers: int, milliseconds: float) -> float:
    """A round's scoring time over what it would be if every worker were busy all the time."""
    begin = time.perf_counter()
    scores = pool.map([milliseconds] * answers)
    seconds = time.perf_counter() - begin
    assert scores == [1.0] * answers, "an answer was not scored"
    return seconds / (answers * milliseconds / 1000 / pool.processes)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/scoring.py", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--answers", type=int, default=256, help="answers of a round")
    parser.add_argument("--milliseconds", type=float, default=50.0, help="of each answer")
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4], help="numbers of worker processes")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that are measured")
    options = parser.parse_args(argv)
    print(f"{options.answers} answers of {options.milliseconds:g} ms, {os.cpu_count()} CPU cores")
    for workers in options.workers:
        pool = Workers("scoring:score" if __name__ == "__main__" else f"{__name__}:score", workers)
        begin = time.perf_counter()
        pool.map([0.0] * workers)
        start = time.perf_counter() - begin
        found = sorted(ratio(pool, options.answers, options.milliseconds) for _ in range(options.rounds))
        pool.close()
        print(
            f"{workers} workers: {found[0]:.3f} to {found[-1]:.3f} of the ideal, started in {start:.1f} s", flush=True
        )


if __name__ == "__main__":
    main()
