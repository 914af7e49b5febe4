"""What the rewards of progress cost: CPU time of a job of the arena's `ladder`, over that of `trained`.

    python benchmarks/progress_cost.py                               # whole jobs of four seeds: 25 minutes on one core
    python benchmarks/progress_cost.py --seeds 1 --rounds 10         # a glance

The contestants of a seed take turns in one process, a round each, in an order that rotates. A ratio is one of sums
over a seed's rounds, its interval Student's over seeds.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import transformers
import yaml
from pacing import Paced
from results import machine, write_json

from countdown_selfplay import JointConjecturerProverTrainer
from countdown_selfplay.data.files import data_sets
from countdown_selfplay.domains import domain_from
from countdown_selfplay.lab.arena.contestants import entrant
from countdown_selfplay.lab.arena.job import settings_of
from countdown_selfplay.lab.arena.tracks import load_track
from countdown_selfplay.lab.cli.arena import settings_from
from countdown_selfplay.statistics.bootstrap import t_interval

CONTROL, NAMES = "trained", ("placebo", "progress")


def build(name: str, seed: int, rounds: int, folder: Path) -> JointConjecturerProverTrainer:
    """The contestant's trainer as a job makes it, without measurements."""
    settings = settings_of(load_track("ladder"), entrant(name), seed, folder / name)
    settings |= {"max_steps": rounds, "save_strategy": "no"}
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    script, config, arguments = settings_from(file)
    domain = domain_from(config)
    data = data_sets(script, domain)
    trainer = JointConjecturerProverTrainer(args=config, domain=domain, **data, **arguments)
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def measure(names: list[str], seed: int, rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each round."""
    seconds: dict[str, list[float]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        trainers = {name: build(name, seed, rounds, Path(folder)) for name in names}
        paced = {name: Paced(trainer) for name, trainer in trainers.items()}
        for i in range(rounds):
            for name in names[i % len(names) :] + names[: i % len(names)]:
                seconds[name].append(paced[name].step()[1])
        for runner in paced.values():
            runner.join()
    return seconds


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--contestants", nargs="+", default=list(NAMES), help=f"beside {CONTROL}")
    made.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4], help="of the jobs")
    made.add_argument("--rounds", type=int, default=60, help="of each job; 60 are a whole one")
    made.add_argument("--output", type=Path, help="JSON with all figures")
    return made


def main() -> None:
    options = parser().parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    names = [CONTROL, *(name for name in options.contestants if name != CONTROL)]
    seconds = {seed: measure(names, seed, options.rounds) for seed in options.seeds}
    found = {}
    for name in names[1:]:
        ratios = [sum(own[name]) / sum(own[CONTROL]) for own in seconds.values()]
        found[name] = {"by_seed": ratios}
        told = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        if len(ratios) > 1:
            interval = t_interval(ratios)
            found[name] |= {"mean": interval.value, "interval": [interval.low, interval.high]}
            told = f"{interval.value:.2f} [{interval.low:.2f}, {interval.high:.2f}]; by seed {told}"
        print(f"{name} / {CONTROL} (CPU time): {told}", flush=True)
    each = {seed: {name: [round(v, 3) for v in one] for name, one in own.items()} for seed, own in seconds.items()}
    write_json(options.output, {"machine": machine(), "ratios": found, "seconds": each})


if __name__ == "__main__":
    main()
