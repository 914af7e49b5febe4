"""How often each 95% interval of the library holds the truth, and how often equal arms are ranked, on simulated data.

    nice python benchmarks/interval_coverage.py --output docs/benchmarks/interval_coverage.json

Scaling: a problem is first solved at compute T, P(T <= C) the sigmoid of docs/evaluation.md, so that the cumulative
rate of 500 problems is what a run logs. Runs differ in their asymptote; problems are as hard in all runs, in part.
Seeds: counts of 16 answers per problem and training seed of two methods that differ on problems but not on average.
Problems: pairs of counts from three populations. Each share stands with its 95%
Wilson interval. `--parts` runs a part.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from countdown_selfplay.evaluation import wilson_interval
from countdown_selfplay.lab.scaling import curve_of
from countdown_selfplay.lab.scaling_fit import ScalingCurve
from countdown_selfplay.statistics.bootstrap import ends, paired_differences, resampled_means, two_level_draws

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tools.scaling_checks import assess, rank

A, C_MID, SLOPE, R0, PROBLEMS = 0.62, 8e5, 0.9, 0.05, 500
COMPUTE = np.concatenate([[0.0], np.geomspace(2e4, 2e7, 30)])
RUN_SD = 0.02  # of the asymptote over runs
RESAMPLES = 500
Simulation = Callable[[int], dict[str, bool | float | None]]


_NORMAL = np.sort(np.random.default_rng(0).normal(size=1_000_001))  # as a table of quantiles


def cumulative_run(rng: np.random.Generator, hardness_P: np.ndarray, run_sd: float, known: bool) -> ScalingCurve:
    """Half of the variance of a problem's place in the order of solving is its hardness, the same in all runs."""
    place_P = (hardness_P + rng.normal(size=PROBLEMS)) / 2**0.5
    asymptote = A + rng.normal(0, run_sd)
    share_J = R0 + (asymptote - R0) / (1 + (C_MID / np.maximum(COMPUTE, 1e-9)) ** SLOPE)
    first_P = np.searchsorted(_NORMAL[np.rint(share_J * 1e6).astype(int)], place_P)
    rate_J = (first_P[:, None] <= np.arange(len(COMPUTE))).mean(0)
    keys = tuple(map(str, range(PROBLEMS))) if known else None
    return ScalingCurve(COMPUTE, rate_J, True, keys, first_P if known else None)


def scaling(number: int, runs: int, known: bool) -> dict[str, Any]:
    """The interval of one arm, and whether it is ranked against an equal one on the same problems. What one run
    cannot tell is how runs differ: there they do not."""
    rng = np.random.default_rng([1, runs, known, number])
    hardness_P, run_sd = rng.normal(size=PROBLEMS), RUN_SD * (runs > 1)
    arms = [[cumulative_run(rng, hardness_P, run_sd, known) for _ in range(runs)] for _ in "ab"]
    one, other = (assess(name, arm, seed=number, subsets=4) for name, arm in zip("ab", arms, strict=True))
    interval = None if one.interval is None else (one.interval.low, one.interval.high)
    return {"arm": _held(interval, A), "equal arms ranked": None if interval is None else rank([one, other])[0].ranked}


def independent(number: int) -> dict[str, Any]:
    """One run whose points are independent shares of 500 problems each."""
    rng = np.random.default_rng([2, number])
    share_J = R0 + (A - R0) / (1 + (C_MID / np.maximum(COMPUTE, 1e-9)) ** SLOPE)
    rate_J = rng.binomial(PROBLEMS, share_J) / PROBLEMS
    interval = assess("a", [curve_of(COMPUTE, rate_J)], resamples=100, seed=number, subsets=0).interval
    return {"arm": _held(None if interval is None else (interval.low, interval.high), A)}


def two_level(number: int, seeds: int, seed_sd: float, problem_sd: float) -> dict[str, Any]:
    """Two methods on 128 problems: b differs from a on single problems by `problem_sd`, by 0 on average."""
    rng = np.random.default_rng([3, seeds, int(seed_sd * 1e4), int(problem_sd * 1e4), number])
    base_P, own_P = rng.uniform(0.35, 0.65, 128), np.clip(rng.normal(0, problem_sd, 128), -0.3, 0.3)

    def counts(shift_P: np.ndarray | float) -> np.ndarray:
        mean_SP = base_P + shift_P + rng.normal(0, seed_sd, (seeds, 1)) + rng.normal(0, 0.03, (seeds, 128))
        return rng.binomial(16, np.clip(mean_SP, 0, 1)) / 16

    a_SP, b_SP = counts(0.0), counts(own_P)
    draws = two_level_draws(a_SP, b_SP, RESAMPLES, number), drawn_seeds(a_SP, b_SP, rng)
    (low, high), (plain_low, plain_high) = (np.quantile(found, (0.025, 0.975)) for found in draws)
    wider = (high - low) / (plain_high - plain_low)
    return {"corrected": _held((low, high), 0), "seeds drawn": _held((plain_low, plain_high), 0), "times wider": wider}


def drawn_seeds(a_SP: np.ndarray, b_SP: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The bootstrap without a correction: seeds of each method and problems of both are drawn with replacement."""
    shares = [np.full(count, 1 / count) for count in (*a_SP.shape, len(b_SP))]
    of_a, of_p, of_b = (rng.multinomial(len(p), p, RESAMPLES) / len(p) for p in shares)
    return ((of_b @ b_SP - of_a @ a_SP) * of_p).sum(1)


POPULATIONS = {"even": (1.0, 1.0), "rare": (0.1, 3.0), "frequent": (3.0, 0.3)}


def paired(number: int, problems: int, k: int, population: str) -> dict[str, Any]:
    """The truth is that of 400,000 problems."""
    all_a, all_b = _population(population)
    rng = np.random.default_rng([4, problems, k, len(population), number])
    drawn = rng.integers(len(all_a), size=problems)
    counts = [rng.binomial(16, side[drawn]) for side in (all_a, all_b)]
    difference_P = paired_differences(counts[0], counts[1], 16, k)
    means = resampled_means(difference_P, RESAMPLES, number)
    truth = _truth(population, k)
    return {"percentile": _held(ends(difference_P, means, 0.95), truth)}


@cache
def _population(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Chances of a right answer of 400,000 problems under both models."""
    rng = np.random.default_rng(5)
    share = rng.beta(*POPULATIONS[name], 400_000)
    return share, np.clip(share * rng.uniform(0.6, 1.2, share.size) + rng.normal(0, 0.05, share.size), 0, 1)


@cache
def _truth(name: str, k: int) -> float:
    a, b = _population(name)
    return float(((1 - a) ** k - (1 - b) ** k).mean())


def _held(interval: Any, truth: float) -> bool | None:
    return None if interval is None else bool(interval[0] <= truth <= interval[1])


def settings(share: float) -> Iterator[tuple[str, str, int, Simulation]]:
    """Part, setting in words, simulations, simulation."""
    for known in (False, True):
        for runs in (1, 3, 5):
            words = f"{runs} run{'s' * (runs > 1)}{', problems known' * known}"
            many = 4 if (runs, known) == (1, False) else 250
            yield "scaling", words, round(many * share) or 1, partial(scaling, runs=runs, known=known)
    yield "scaling", "1 run, independent points", round(100 * share), independent
    for words, seed_sd, problem_sd in (
        ("seeds dominate", 0.03, 0.0),
        ("both", 0.01, 0.08),
        ("problems dominate", 0.0, 0.15),
        ("neither", 0.0, 0.0),
    ):
        for seeds in (2, 3, 5, 10):
            call = partial(two_level, seeds=seeds, seed_sd=seed_sd, problem_sd=problem_sd)
            yield "seeds", f"{words}, S = {seeds}", round(1000 * share), call
    for population in POPULATIONS:
        for problems in (20, 50, 512):
            for k in (1, 4):
                call = partial(paired, problems=problems, k=k, population=population)
                yield "paired", f"{population}, {problems} problems, k = {k}", round(800 * share), call


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """For each of the simulation's answers: yes, of how many, share with its interval; the median of a number."""
    result: dict[str, Any] = {}
    for name in found[0]:
        values = [one[name] for one in found if one[name] is not None]
        if values and not isinstance(values[0], bool):
            result[name] = float(np.median(values))
        elif values:
            result[name] = [sum(values), len(values), *wilson_interval(sum(values), len(values)).to_dict().values()]
        else:
            result[name] = None
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=["scaling", "seeds", "paired"])
    parser.add_argument("--share", type=float, default=1.0, help="of the simulations")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--output", type=Path, help="JSON file")
    options = parser.parse_args()
    start, lines = time.perf_counter(), []
    with ProcessPoolExecutor(options.processes) as pool:
        for part, words, count, simulate in settings(options.share):
            if part not in options.parts:
                continue
            found = summary(list(pool.map(simulate, range(count), chunksize=8)))
            lines.append(json.dumps({"part": part, "setting": words, **found}))
            print(f"| {words} | " + " | ".join(f"{n}: {_cell(v)}" for n, v in found.items()) + " |", flush=True)
            if options.output:  # after each setting: a run that is cut short leaves what it found
                seconds = round(time.perf_counter() - start)
                about = {"date": datetime.date.today().isoformat(), "cores": os.cpu_count(), "seconds": seconds}
                options.output.write_text(json.dumps(about)[:-1] + ', "results": [\n' + ",\n".join(lines) + "\n]}\n")
    print(f"{time.perf_counter() - start:.0f} s")


def _cell(value: Any) -> str:
    if value is None:
        return "no interval"
    if isinstance(value, float):
        return f"{value:.2f}"
    return f"{value[2]:.3f} [{value[3]:.3f}, {value[4]:.3f}]"


if __name__ == "__main__":
    main()
