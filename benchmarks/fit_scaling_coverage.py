"""How often the 95% interval of a fitted asymptote holds the true one, on simulated curves.

    python benchmarks/fit_scaling_coverage.py --curves 200 --resamples 200 --output coverage.json

A curve is the sigmoid of FACTS and seed 003 with known values at geometrically spaced compute, each rate a binomial
share of `--problems`. With several `--runs` each training seed has an asymptote of its own, drawn around the true one.
The interval is the one that `countdown-selfplay fit-scaling` prints, by the same function.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from countdown_selfplay.evaluation import wilson_interval
from countdown_selfplay.evaluation.scaling import ScalingFit
from countdown_selfplay.evaluation.scaling_checks import assess

TRUTH = ScalingFit(asymptote=0.62, c_mid=8e5, slope=0.9, initial=0.05, converged=True)


def simulate(rng: np.random.Generator, setting: dict[str, Any]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Compute and rates of each run; the first point, R0, was measured before any compute."""
    at = np.geomspace(setting["from"], setting["to"], setting["points"])
    if not setting["no_start"]:
        at = np.concatenate([[0.0], at])
    runs = []
    for _ in range(setting["runs"]):
        asymptote = 0.62 + (rng.normal(0, setting["seed_sd"]) if setting["runs"] > 1 else 0.0)
        curve = ScalingFit(asymptote, 8e5, 0.9, 0.05, True)
        runs.append((at, rng.binomial(setting["problems"], curve(at)) / setting["problems"]))
    return runs


def one(number: int, setting: dict[str, Any]) -> dict[str, Any]:
    """The interval of simulated curve `number`."""
    rng = np.random.default_rng([setting["seed"], number])
    found = assess("curve", simulate(rng, setting), resamples=setting["resamples"], seed=number, subsets=0)
    interval = found.interval
    return {
        "asymptote": found.fit.asymptote,
        "interval": None if interval is None else [interval.low, interval.high],
        "failed": found.failed[0],
    }


def summary(curves: list[dict[str, Any]]) -> dict[str, Any]:
    """Coverage among the curves that got an interval, and where the truth lay when it was missed."""
    intervals = [c["interval"] for c in curves if c["interval"] is not None]
    below = sum(high < 0.62 for _, high in intervals)
    above = sum(low > 0.62 for low, _ in intervals)
    covered = len(intervals) - below - above
    result: dict[str, Any] = {
        "curves": len(curves),
        "failed_fits": sum(c["asymptote"] is None for c in curves),
        "without_interval": len(curves) - len(intervals),
        "intervals": len(intervals),
        "covered": covered,
        "wholly_below_the_truth": below,
        "wholly_above_the_truth": above,
    }
    if intervals:
        estimate = wilson_interval(covered, len(intervals))
        result["coverage"] = [estimate.value, estimate.low, estimate.high]
        result["median_width"] = float(np.median([high - low for low, high in intervals]))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--curves", type=int, default=200)
    parser.add_argument("--resamples", type=int, default=200, help="of the bootstrap (fit-scaling: 500)")
    parser.add_argument("--points", type=int, default=30, help="points of a run")
    parser.add_argument("--from", type=float, default=2e4, help="least compute")
    parser.add_argument("--to", type=float, default=2e7, help="greatest compute")
    parser.add_argument("--no_start", action="store_true", help="no point at compute 0: R0 lies on the rise")
    parser.add_argument("--problems", type=int, default=500, help="behind each rate")
    parser.add_argument("--runs", type=int, default=1, help="training seeds of an arm")
    parser.add_argument("--seed_sd", type=float, default=0.02, help="spread of the asymptote over training seeds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--output", type=Path, help="JSON file")
    options = parser.parse_args()
    setting = {name: value for name, value in vars(options).items() if name not in ("output", "processes", "curves")}
    start = time.perf_counter()
    with ProcessPoolExecutor(options.processes) as pool:
        curves = list(pool.map(one, range(options.curves), [setting] * options.curves, chunksize=4))
    result = summary(curves)
    coverage, low, high = result.get("coverage", [float("nan")] * 3)
    print(f"coverage {coverage:.3f} [{low:.3f}, {high:.3f}] of {result['intervals']} intervals")
    print(", ".join(f"{name} {value}" for name, value in result.items() if name != "coverage"))
    if options.output:
        about = {"date": datetime.date.today().isoformat(), "seconds": round(time.perf_counter() - start)}
        options.output.write_text(json.dumps({**about, "setting": setting, **result, "all": curves}) + "\n")


if __name__ == "__main__":
    main()
