"""The four named runs of seed 001 on the embedded model, one report with their health side by side, and the counts.

python examples/compare_seed_001.py                        # the four runs, with the settings of their authors
python examples/compare_seed_001.py --seeds 1 2 3          # each of them with three training seeds
python examples/compare_seed_001.py --mixes 0 0.25 0.5     # the ablation the paper asks for: the shares of fixed data
python examples/compare_seed_001.py --max_steps 10         # any flag of `countdown-selfplay joint` goes to every run
"""

import argparse
from pathlib import Path

from countdown_selfplay.cli.main import main
from countdown_selfplay.evaluation.compare.arms import aligned_arms, load_arms, write_counts
from countdown_selfplay.evaluation.report import write_report

RUNS = ("conservative_binary", "aggressive_binary", "anchored_shaped", "anchored_shaped_fixed")
ABLATED = "anchored_shaped_fixed"  # all else as in the corrected run; at 0 the conjecturer's problems alone are played


def play(name: str, folder: Path, flags: list[str]) -> Path:
    print(f"\n== {folder.name} ==", flush=True)
    code = main(["joint", "--recipe", f"tiny/{name}", "--output_dir", str(folder), *flags])
    if code:
        raise SystemExit(code)
    return folder


def compare(seeds: list[int], mixes: list[float], flags: list[str], root: Path = Path("runs")) -> Path:
    arms = {f"tiny-{name.replace('_', '-')}": (name, []) for name in RUNS}
    if mixes:
        alone = {0.0: ["--fill", "none"]}
        arms = {f"mix-{mix:g}": (ABLATED, ["--anchor_fraction", str(mix), *alone.get(mix, [])]) for mix in mixes}
    folders: dict[str, list[Path]] = {}
    for arm, (name, own) in arms.items():
        each = {root / f"{arm}-seed-{seed}": ["--seed", str(seed)] for seed in seeds} or {root / arm: []}
        folders[arm] = [play(name, folder, [*own, *seed, *flags]) for folder, seed in each.items()]
    first = next(iter(folders.values()))[0]
    loaded = load_arms([f"before={first}:before", *(f"{arm}={','.join(map(str, f))}" for arm, f in folders.items())])
    title = "seed-001-mixes" if mixes else "seed-001"
    write_counts(root / f"{title}-counts.json", aligned_arms(loaded))
    return write_report([folder for own in folders.values() for folder in own], root / f"{title}.html")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[])
    parser.add_argument("--mixes", type=float, nargs="+", default=[])
    options, rest = parser.parse_known_args()
    print(f"Health of the runs side by side: {compare(options.seeds, options.mixes, rest)}")
