"""The four named runs of seed 001 on the embedded model, one report with their health side by side, and the counts.

python examples/compare_seed_001.py                        # about 15 minutes on two cores
python examples/compare_seed_001.py --max_steps 10         # any flag of `countdown-selfplay joint` goes to every run
"""

import sys
from pathlib import Path

from countdown_selfplay.cli.main import main
from countdown_selfplay.evaluation.compare.arms import aligned_arms, load_arms, write_counts
from countdown_selfplay.evaluation.report import write_report

RUNS = ("conservative_binary", "aggressive_binary", "anchored_shaped", "anchored_shaped_fixed")


def compare(flags: list[str]) -> Path:
    folders = []
    for name in RUNS:
        folder = Path("runs") / f"tiny-{name.replace('_', '-')}"
        print(f"\n== {name} ==", flush=True)
        code = main(["joint", "--recipe", f"tiny/{name}", "--output_dir", str(folder), *flags])
        if code:
            raise SystemExit(code)
        folders.append(folder)
    loaded = load_arms([f"before={folders[0]}:before", *map(str, folders)])
    write_counts(Path("runs") / "seed-001-counts.json", aligned_arms(loaded))
    return write_report(folders, Path("runs") / "seed-001.html")


if __name__ == "__main__":
    print(f"Health of the four runs side by side: {compare(sys.argv[1:])}")
