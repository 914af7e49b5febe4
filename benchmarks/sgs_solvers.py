"""What the solvers of studies/sgs.py can do at the targets after their training, and before it.

    python benchmarks/sgs_solvers.py                                   # sgs, reinforce_half, cispo_alone; seeds 0 1 2
    python benchmarks/sgs_solvers.py --arms sgs no_guide --seeds 0 1 --samples 128

pass@k of each run's last checkpoint less the warm start's, with two-level intervals over seeds and problems (over
problems alone where an arm has one seed); and what both solve of the targets that the run left unsolved, which are
chosen by its failures. Last checkpoints of different arms may be of different rounds: the second column says which.
Every evaluation is kept in <study>/solvers and read again.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "studies"))

from many_runs import run_folder

from countdown_selfplay.cli.main import main as command
from countdown_selfplay.statistics.bootstrap import two_level_bootstrap
from countdown_selfplay.statistics.pass_at_k import pass_at_k_array
from countdown_selfplay.training.checkpoints import newest

KS = (1, 8, 16, 32, 64, 128)


def evaluated(model: Path, targets: Path, samples: int, kept: Path) -> dict[str, int]:
    """Right answers of `samples` to each target."""
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        asked = ["--problems", str(targets), "--samples", str(samples), "--seed", "1", "--disable_tqdm"]
        if command(["eval", "--model", str(model), *asked, "--output", str(kept)]):
            raise SystemExit(f"{model} could not be evaluated.")
    found = json.loads(kept.read_text())
    return dict(zip(found["keys"], found["correct"], strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--start", type=Path, default=Path("runs/tiny-sgs"), help="Where studies/sgs.py works.")
    parser.add_argument("--study", type=Path, help="Its run folders (<start>/study).")
    parser.add_argument("--arms", nargs="+", default=["reinforce_half", "sgs", "cispo_alone"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--samples", type=int, default=64)
    options = parser.parse_args()
    study, n = options.study or options.start / "study", options.samples
    targets, kept = options.start / "targets.jsonl", study / "solvers"
    before = evaluated(options.start / "prover", targets, n, kept / f"start-{n}.json")
    start = [list(before.values())]
    ks = [k for k in KS if k <= n]
    print("| arm | round | " + " | ".join(f"pass@{k}, less the warm start" for k in ks) + " |")
    print("|---" * (len(ks) + 2) + "|")
    print("| start | | " + " | ".join(f"{pass_at_k_array(start[0], n, k).mean():.3f}" for k in ks) + " |")
    told = []
    for arm in options.arms:
        counts, rounds, left = [], [], []
        for seed in options.seeds:
            folder = run_folder(study, arm, seed)
            checkpoint = newest(folder, 1)
            if checkpoint is None:
                raise SystemExit(f"{folder} holds no whole checkpoint; play it with studies/sgs.py first.")
            after = evaluated(checkpoint / "prover", targets, n, kept / f"{arm}-{seed}-{checkpoint.name}-{n}.json")
            counts.append([after[key] for key in before])
            run = json.loads((folder / "run.json").read_text())
            steps = 1 if run.get("counts") == "rounds" else run["config"]["steps_per_round"]
            rounds.append(int(checkpoint.name.rpartition("-")[2]) // steps)
            first = json.loads((folder / "first_solved.json").read_text())["first_solved"]
            own = [key for key in before if first.get(key) is None]
            left.append([np.mean([found[key] > 0 for key in own]) for found in (before, after)])
        cells = []
        for k in ks:
            gap = two_level_bootstrap(start, counts, n, k)
            rate = np.mean([pass_at_k_array(row, n, k).mean() for row in counts])
            cells.append(f"{rate:.3f}, {gap.difference:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]")
        print(f"| {arm} | {', '.join(map(str, rounds))} | " + " | ".join(cells) + " |")
        shares = "; ".join(f"{a:.3f} to {b:.3f}" for a, b in left)
        told.append(f"{arm}: of what a run left the warm start and its own solver solve in {n} attempts: {shares}")
    print("", *told, sep="\n")


if __name__ == "__main__":
    main()
