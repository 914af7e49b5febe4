"""The four named runs of Allen and Ståblein and their RLOO baseline on the embedded model: differences, health and
counts.

python studies/four_runs.py                        # with the settings of their authors
python studies/four_runs.py --seeds 1 2 3          # each of them with three training seeds
python studies/four_runs.py --runs conservative_binary rloo_30     # only these
python studies/four_runs.py --mixes 0 0.25 0.5     # the ablation the paper asks for: the shares of fixed data
python studies/four_runs.py --rates 1 10 20        # the conservative run at so many times its conjecturer's rate
python studies/four_runs.py --length_penalty 0.1   # any flag of `countdown-selfplay joint` goes to every run

A run that is finished is read, not repeated. One report has all runs side by side.
"""

import argparse
import json
from pathlib import Path

from countdown_selfplay.cli.main import main
from countdown_selfplay.config.recipes import read_settings, recipes
from countdown_selfplay.lab.compare import aligned_arms, load_arms, write_counts
from countdown_selfplay.lab.report import write_report

BASELINE = ["--problems_per_round", "128"]  # x 8 answers; rate, KL and entropy are the aggressive run's
RUNS = {
    **{name: ("joint", name, []) for name in ("conservative_binary", "aggressive_binary")},
    **{name: ("joint", name, []) for name in ("anchored_shaped", "anchored_shaped_fixed")},
    **{f"rloo_{n}": ("rloo", "aggressive_binary", [*BASELINE, "--max_steps", f"{n}"]) for n in (30, 80)},
    # the corrected run without its conjecturer: 24 fixed problems x 8 a round, as many as it plays on the mean
    "fixed_problems": ("rloo", "anchored_shaped_fixed", ["--problems_per_round", "24", "--max_steps", "100"]),
}
ABLATED = "anchored_shaped_fixed"  # all else as in the corrected run; at 0 the conjecturer's problems alone are played
CONSERVATIVE = "conservative_binary"  # at 20 the conjecturer has the aggressive run's rate


def play(command: str, name: str, folder: Path, flags: list[str]) -> Path:
    """The folder of the finished run, which holds the command that made it."""
    words, note = [command, "--recipe", f"tiny/{name}", "--output_dir", str(folder), *flags], folder / "command.json"
    print(f"\n== {folder.name} ==", flush=True)
    if not note.exists() or json.loads(note.read_text()) != words:
        code = main(words)
        if code:
            raise SystemExit(code)
        note.write_text(json.dumps(words))
    return folder


def health(folder: Path) -> str:
    """Starved rounds, the mean solve rate of the others and the share of solvable proposals before and after."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rounds = [line for line in lines if "round/starved" in line]
    rates = [line["round/solve_rate_mean"] for line in rounds if "round/solve_rate_mean" in line]
    found = json.loads((folder / "evaluation.json").read_text())
    if not rounds:
        return f"{folder.name}: no conjecturer"
    solvable = " -> ".join(f"{found[when]['conjecturer']['solvable']['value']:.3f}" for when in ("before", "after"))
    mean = f"{sum(rates) / len(rates):.3f}" if rates else "none"
    starved = sum(line["round/starved"] for line in rounds)
    return (
        f"{folder.name}: {starved:.0f} of {len(rounds)} rounds starved, mean p {mean}, proposals solvable {solvable}"
    )


def mixed(mixes: list[float]) -> dict[str, tuple[str, str, list[str]]]:
    """The share itself: padded to a multiple of 8, a quarter of fixed problems beside ten proposals would be more."""
    rest = {mix: ["--truncate_multiple", "1"] if mix else ["--fill", "none"] for mix in mixes}
    flags_of = {mix: ["--anchor_fraction", str(mix), *rest[mix]] for mix in mixes}
    return {f"mix-{mix:g}": ("joint", ABLATED, own) for mix, own in flags_of.items()}


def hastened(times: list[float]) -> dict[str, tuple[str, str, list[str]]]:
    own = float(read_settings(recipes()[f"tiny/{CONSERVATIVE}"])["conjecturer_learning_rate"])
    return {f"rate-{x:g}": ("joint", CONSERVATIVE, ["--conjecturer_learning_rate", f"{own * x:g}"]) for x in times}


def compare(
    seeds: list[int],
    arms: dict[str, tuple[str, str, list[str]]],
    flags: list[str],
    root: Path = Path("runs"),
    title: str = "four-runs",
) -> Path:
    folders: dict[str, list[Path]] = {}
    for arm, (command, name, own) in arms.items():
        each = {root / f"{arm}-seed-{seed}": ["--seed", str(seed)] for seed in seeds} or {root / arm: []}
        folders[arm] = [play(command, name, folder, [*own, *seed, *flags]) for folder, seed in each.items()]
    played = [folder for own in folders.values() for folder in own]
    words = [f"before={played[0]}:before", *(f"{arm}={','.join(map(str, f))}" for arm, f in folders.items())]
    write_counts(root / f"{title}-counts.json", aligned_arms(load_arms(words)))
    main(["compare", *words])
    print(*(health(folder) for folder in played), sep="\n")
    return write_report(played, root / f"{title}.html")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[])
    parser.add_argument("--mixes", type=float, nargs="+", default=[])
    parser.add_argument("--rates", type=float, nargs="+", default=[])
    parser.add_argument("--runs", choices=list(RUNS), nargs="+", default=list(RUNS))
    options, rest = parser.parse_known_args()
    arms, title = {f"tiny-{name.replace('_', '-')}": RUNS[name] for name in options.runs}, "four-runs"
    if options.mixes:
        arms, title = mixed(options.mixes), "four-runs-mixes"
    elif options.rates:
        arms, title = hastened(options.rates), "four-runs-rates"
    print(f"Health of the runs side by side: {compare(options.seeds, arms, rest, title=title)}")
