"""The default run over several seeds: does the prover improve, does the conjecturer, is anything starved?

    python benchmarks/default_run_seeds.py --seeds 0 1 2 3 4 --control --counts docs/benchmarks/default_run_counts.json

Each seed is a run of the recipe tiny/default from the same warm-started weights, evaluated before and after on the
same held-out problems; with --control it is followed by one without a conjecturer, on as many samples of the prover.
Reported per seed: the paired difference of pass@k with its 95% bootstrap interval over problems, the conjecturer's
solvable rate before and after, starved rounds, seconds. Over seeds: the mean difference with the two-level interval
over seeds and problems (docs/evaluation.md); from two seeds on. A seed whose run is finished is read, not repeated, so
that seeds can be shared out over processes and put together by a last call.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from countdown_selfplay.evaluation import two_level_bootstrap
from countdown_selfplay.lab.compare import Arm, aligned_arms, load_result, write_counts


def run(seed: int, folder: Path, flags: list[str]) -> dict[str, Any]:
    from countdown_selfplay.cli.main import main

    seconds = folder / "seconds"  # written last
    if not seconds.exists():
        start = time.perf_counter()
        code = main(["joint", "--seed", str(seed), "--output_dir", str(folder), "--recipe", "tiny/default", *flags])
        if code:
            raise SystemExit(code)
        seconds.write_text(f"{time.perf_counter() - start:.0f}")
    result = json.loads((folder / "evaluation.json").read_text())
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rounds = [line for line in lines if "round/starved" in line]
    return {
        "seed": seed,
        "seconds": float(seconds.read_text()),
        "rounds": len(rounds),
        "starved_rounds": sum(line["round/starved"] for line in rounds),
        "difference": result["difference"],
        "pass@1": [result[when]["prover"]["pass_at"]["1"]["value"] for when in ("before", "after")],
        "solvable": [result[when]["conjecturer"]["solvable"]["value"] for when in ("before", "after")],
        "unique": [result[when]["conjecturer"]["unique"]["value"] for when in ("before", "after")],
    }


def compared(first: Arm, second: Arm, names: list[str]) -> dict[str, list[float]]:
    """Differences second minus first with two-level intervals over seeds and problems, printed."""
    counts = [[result.correct for result in arm.results] for arm in (first, second)]
    out = {}
    for name in names:
        found = two_level_bootstrap(counts[0], counts[1], first.results[0].n, int(name.removeprefix("pass@")))
        out[name] = [found.difference, found.low, found.high]
        print(f"{second.name} - {first.name} {name}: {found.difference:+.3f} [{found.low:+.3f}, {found.high:+.3f}]")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--folder", type=Path, default=Path("runs/default-run-seeds"))
    parser.add_argument("--output", type=Path, help="JSON file for the figures")
    parser.add_argument("--counts", type=Path, help="JSON file for the right answers per problem and seed")
    parser.add_argument("--control", action="store_true", help="Each run is followed by one without a conjecturer.")
    options, flags = parser.parse_known_args()
    flags += ["--control"] * options.control
    results = [run(seed, options.folder / f"seed-{seed}", flags) for seed in options.seeds]
    summary: dict[str, Any] = {"runs": results}
    print(
        f"{'seed':>4}  {'pass@1 before':>13}  {'after':>6}  {'difference [95%]':>24}  solvable       starved  seconds"
    )
    for r in results:
        d, low, high = r["difference"]["pass@1"]
        before, after = r["pass@1"]
        print(
            f"{r['seed']:>4}  {before:>13.3f}  {after:>6.3f}  {d:+.3f} [{low:+.3f}, {high:+.3f}]  "
            f"{r['solvable'][0]:.2f} -> {r['solvable'][1]:.2f}  {r['starved_rounds']:>7.0f}  {r['seconds']:>7.0f}"
        )
    folders = [options.folder / f"seed-{seed}" for seed in options.seeds]
    places = {"before": "{}:before", "after": "{}:after"}
    if options.control:
        places["control"] = "{}/control:after"
    sides = [Arm(name, [load_result(place.format(folder)) for folder in folders]) for name, place in places.items()]
    arms = {arm.name: arm for arm in aligned_arms(sides)}
    for first, second in [("before", "after"), ("before", "control"), ("control", "after")]:
        if len(folders) > 1 and {first, second} <= set(arms):
            summary[f"{second} - {first}"] = compared(arms[first], arms[second], list(results[0]["difference"]))
    if options.counts:
        write_counts(options.counts, tuple(arms.values()))
    if options.output:
        options.output.write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
