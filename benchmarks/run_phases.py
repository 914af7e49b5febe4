"""Where a run spends its time: a whole recipe with evaluation and report, by exclusive phases.

    python benchmarks/run_phases.py --recipe tiny/ladder --output run_phases.json
    python benchmarks/run_phases.py --recipe tiny/default --max_steps 50

The run is the command `countdown-selfplay joint` in this process. An inner phase is not counted in the outer one;
`rest of ...` is the outer one's remainder. Wall and CPU seconds; imports are counted from the start of the process.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from pacing import Phases
from results import machine, write_json


def instrument(phases: Phases) -> None:
    """Wrap the methods of a run's owners: classes, so that whatever instance the command makes is timed."""
    from accelerate import Accelerator
    from torch.optim import AdamW

    from countdown_selfplay.training import run
    from countdown_selfplay.training.evaluation import Evaluator
    from countdown_selfplay.training.exports import Exports
    from countdown_selfplay.training.round_loop import OptimizerSteps, RoundLoop
    from countdown_selfplay.training.store import Store
    from countdown_selfplay.training.trainer import JointConjecturerProverTrainer as Trainer

    measure: Callable[..., Any] = Evaluator.measure

    def measured(self: Any, problems: Any, proposals: Any, when: str) -> Any:
        with phases(f"evaluation {when}"):
            return measure(self, problems, proposals, when)

    Evaluator.measure = measured  # type: ignore[method-assign]
    phases.wrap(run, "data_sets", "data sets")
    phases.wrap(run, "tell", "cards, table, report")
    phases.wrap(Trainer, "__init__", "trainer")
    phases.wrap(Evaluator, "probe_format", "probe of the format")
    phases.wrap(Trainer, "train", "rest of training")
    phases.wrap(RoundLoop, "play", "rest of the round: parse, verify, solve, credit, plan")
    phases.wrap(Trainer, "_generate_single_turn", "sampling")
    phases.wrap(OptimizerSteps, "measure", "forward and loss")
    phases.wrap(Accelerator, "backward", "backward")
    phases.wrap(AdamW, "step", "optimizer")
    phases.wrap(Store, "save", "checkpoints")
    phases.wrap(Exports, "write", "exports")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--recipe", default="tiny/ladder")
    made.add_argument("--max_steps", type=int, help="rounds; default: the recipe's")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--output", type=Path, help="JSON file for all figures")
    return made


def main() -> None:
    options = parser().parse_args()
    phases = Phases()
    from countdown_selfplay.cli.main import main as command

    instrument(phases)
    began = psutil.Process().create_time()
    phases.wall["imports"], phases.cpu["imports"] = time.time() - began, time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        line = ["joint", "--recipe", options.recipe, "--seed", str(options.seed), "--output_dir", f"{folder}/run"]
        if options.max_steps:
            line += ["--max_steps", str(options.max_steps)]
        if code := command(line):
            raise SystemExit(code)
    wall, cpu = time.time() - began, time.process_time()
    found = {name: {"wall": phases.wall[name], "cpu": phases.cpu[name]} for name in phases.wall}
    found["other"] = {"wall": wall - sum(phases.wall.values()), "cpu": cpu - sum(phases.cpu.values())}
    print(f"\n| phase | CPU s | share | wall s |\n|---|---|---|---|\n| all | {cpu:.1f} | 100% | {wall:.1f} |")
    for name, one in sorted(found.items(), key=lambda item: -item[1]["cpu"]):
        print(f"| {name} | {one['cpu']:.1f} | {one['cpu'] / cpu:.0%} | {one['wall']:.1f} |")
    setting = {"recipe": options.recipe, "max_steps": options.max_steps, "seed": options.seed}
    total = {"wall": wall, "cpu": cpu}
    write_json(options.output, {"machine": machine(), "setting": setting, "all": total, "phases": found})


if __name__ == "__main__":
    main()
