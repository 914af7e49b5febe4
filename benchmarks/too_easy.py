"""Does the aggressive binary run of Allen and Ståblein collapse to too easy problems on the embedded model?

    python benchmarks/too_easy.py --seeds 0 1 2 3 4 --output docs/benchmarks/too_easy.json

Runs of the recipe tiny/aggressive_binary without evaluation, from the same warm-started weights: at its own settings,
and with both learning rates three times as high under a truncation to multiples of 16 (the recipe's) and of 1 (none);
each with repeated proposals kept (every one is played, as in the authors' program) and shared (one is played for all).
Reported per arm: means over the first and the last rounds, with Student's 95% interval over seeds. A round that played
no proposal has no solve rate and no share; a seed in which all of those rounds are such has no part in the mean, and
how many have is printed. Runs that the output file holds are read, not repeated; each is written when it ends.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from results import machine, write_json

from countdown_selfplay.evaluation import t_interval

HIGH = ["--prover_learning_rate", "3e-4", "--conjecturer_learning_rate", "3e-4"]
SETTINGS = {"recipe": [], "3e-4 multiple 1": [*HIGH, "--truncate_multiple", "1"], "3e-4 multiple 16": HIGH}
ARMS = {f"{name} {repeats}": (flags, repeats) for name, flags in SETTINGS.items() for repeats in ("keep", "share")}
METRICS = {  # by round; None where a round has none
    "solvable": "conjecturer/solvable_rate",
    "distinct": "conjecturer/unique_rate",
    "mean p": "round/solve_rate_mean",
    "too easy": "round/too_easy_share",
    "c-reward": "conjecturer/reward",
    "played": "round/conjectured_slots",
    "starved": "round/starved",
}


def played(flags: list[str], repeats: str, seed: int, rounds: int) -> dict[str, list[float | None]]:
    """METRICS of one run, by round."""
    from countdown_selfplay.cli.main import main

    with tempfile.TemporaryDirectory() as folder:
        fixed = [
            "--recipe",
            "tiny/aggressive_binary",
            "--eval_problems",
            "0",
            "--save_strategy",
            "no",
            "--disable_tqdm",
            "true",
        ]
        own = [
            "--duplicate_proposals",
            repeats,
            "--seed",
            str(seed),
            "--max_steps",
            str(rounds),
            "--output_dir",
            folder,
        ]
        code = main(["joint", *fixed, *flags, *own])
        if code:
            raise SystemExit(code)
        lines = [json.loads(line) for line in (Path(folder) / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if "round/starved" in line]
    assert [line["step"] for line in lines] == list(range(1, rounds + 1))
    return {name: [_short(line.get(key)) for line in lines] for name, key in METRICS.items()}


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def over_seeds(runs: list[dict[str, list[float | None]]], name: str, rounds: slice) -> str:
    """Mean over the rounds, then over seeds with its interval: "0.31 [0.28, 0.34]"."""
    known = [[value for value in run[name][rounds] if value is not None] for run in runs]
    means = [sum(values) / len(values) for values in known if values]
    short = "" if len(means) == len(runs) else f" ({len(means)} of {len(runs)} seeds)"
    if len(means) < 2:
        return f"{means[0]:.2f}{short}" if means else "none"
    found = t_interval(means)
    return f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]{short}"


def table(found: dict[str, Any], width: int) -> str:
    """Markdown: a row per arm, first and last `width` rounds."""
    rows = ["| arm | rounds | " + " | ".join(METRICS) + " |", "|---" * (len(METRICS) + 2) + "|"]
    for arm in (arm for arm in ARMS if arm in found):
        runs = list(found[arm].values())
        for said, rounds in ((f"first {width}", slice(width)), (f"last {width}", slice(-width, None))):
            rows.append(f"| {arm} | {said} | " + " | ".join(over_seeds(runs, name, rounds) for name in METRICS) + " |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--width", type=int, default=5, help="rounds at either end that the table averages")
    parser.add_argument("--output", type=Path, default=Path("runs/too_easy.json"))
    options = parser.parse_args()
    found: dict[str, Any] = json.loads(options.output.read_text())["runs"] if options.output.exists() else {}
    for seed in options.seeds:
        for arm in options.arms:
            flags, repeats = ARMS[arm]
            if len(found.get(arm, {}).get(str(seed), {}).get("starved", [])) != options.rounds:
                found.setdefault(arm, {})[str(seed)] = played(flags, repeats, seed, options.rounds)
                write_json(options.output, {**machine(), "recipe": "tiny/aggressive_binary", "runs": found})
    print(
        table(
            {arm: {seed: found[arm][seed] for seed in map(str, options.seeds)} for arm in options.arms}, options.width
        )
    )


if __name__ == "__main__":
    main()
