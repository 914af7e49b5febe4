"""The default run over several seeds: does the prover improve, does the conjecturer, is anything starved?

    python benchmarks/default_run_seeds.py --seeds 0 1 2 3 4 --output default_run_seeds.json
 Each seed is a run of the recipe tiny/default from the same warm-started weights, evaluated before and after on the
same held-out problems. Reported per seed: the paired difference of pass@k with its 95% bootstrap interval over
problems, the conjecturer's solvable rate before and after, starved rounds, seconds. Over seeds: mean and the t
interval of the difference.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

# Two-sided 97.5% quantiles of Student's t for 1 to 9 degrees of freedom.
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


def run(seed: int, folder: Path, flags: list[str]) -> dict[str, Any]:
    from countdown_selfplay.cli.main import main

    start = time.perf_counter()
    code = main(["joint", "--seed", str(seed), "--output_dir", str(folder), "--recipe", "tiny/default", *flags])
    if code:
        raise SystemExit(code)
    result = json.loads((folder / "evaluation.json").read_text())
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rounds = [line for line in lines if "round/starved" in line]
    return {
        "seed": seed,
        "seconds": time.perf_counter() - start,
        "rounds": len(rounds),
        "starved_rounds": sum(line["round/starved"] for line in rounds),
        "difference": result["difference"],
        "pass@1": [result[when]["prover"]["pass_at"]["1"]["value"] for when in ("before", "after")],
        "solvable": [result[when]["conjecturer"]["solvable"]["value"] for when in ("before", "after")],
        "unique": [result[when]["conjecturer"]["unique"]["value"] for when in ("before", "after")],
    }


def over_seeds(values: list[float]) -> list[float]:
    """Mean and 95% t interval."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return [mean, float("nan"), float("nan")]
    half = T_975[min(len(values), 10) - 2] * statistics.stdev(values) / len(values) ** 0.5
    return [mean, mean - half, mean + half]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--folder", type=Path, default=Path("runs/default-run-seeds"))
    parser.add_argument("--output", type=Path, help="JSON file for the figures")
    options, flags = parser.parse_known_args()
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
    for k in results[0]["difference"]:
        summary[k] = over_seeds([r["difference"][k][0] for r in results])
        mean, low, high = summary[k]
        print(f"{k}: mean difference over {len(results)} seeds {mean:+.3f} [{low:+.3f}, {high:+.3f}]")
    if options.output:
        options.output.write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
