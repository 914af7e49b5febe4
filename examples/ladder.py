"""The ladder's table: arms with equal answers, from a prover that has seen two and three numbers (docs/ladder.md).

    python examples/ladder.py --arms trained frozen placebo uniform --seeds 1 2 3 --output runs/ladder

Each finished job is a JSON file in the output folder, and is not played again; `--part 0/2` and `--part 1/2` share the
jobs out between two shells. `--table` prints the table of what is there.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

RUNGS = list(range(3, 11))
KINDS: dict[str, dict[str, Any]] = {
    "trained": {},
    "frozen": {"conjecturer_learning_rate": 0.0},
    "placebo": {"shuffled_rewards": True},
    "uniform": {"proposer": "uniform_rungs", "conjecturer_micro_batches": 0, "conjecturer_samples_per_round": None},
}
KINDS["bandit"] = {**KINDS["uniform"], "proposer": "bandit_rungs"}
KINDS["hard"] = {**KINDS["uniform"], "proposer_kwargs": {"rungs": [8, 9, 10]}}
"""Arm -> what it changes in the recipe tiny/ladder. `NAME@R`: with each right answer seen R times, for equal steps."""


def settings(arm: str) -> dict[str, Any]:
    kind, _, reuse = arm.partition("@")
    found = dict(KINDS[kind])
    if reuse:
        kept = {"reuse": float(reuse), "per_problem": 2, "capacity": 2000, "per_token": True}
        found |= {"prover_objective_kwargs": kept, "steps_per_round": 24}
    return found


def play(arm: str, seed: int, rounds: int, folder: Path, each: int) -> dict[str, Any]:
    """Train one arm and measure its prover on held-out problems of each rung."""
    from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
    from countdown_selfplay.evaluation.roles import evaluate_prover
    from countdown_selfplay.evaluation.rungs import held_out_by_rung
    from countdown_selfplay.tiny import LADDER_MODEL_PATHS

    changes = {"max_steps": rounds, "save_strategy": "no", "report_to": "none", "disable_tqdm": True, "seed": seed}
    config = JointSelfPlayConfig.from_recipe(
        "tiny/ladder", **changes, **settings(arm), output_dir=str(folder / f"{arm}-{seed}")
    )
    models = {role: str(path) for role, path in LADDER_MODEL_PATHS.items()}
    if not config.players_of("conjecturer"):
        models.pop("conjecturer")
    trainer = JointConjecturerProverTrainer(models if len(models) > 1 else models["prover"], args=config)
    start, cpu = time.perf_counter(), time.process_time()
    trainer.train()
    spent = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
    with trainer.sampling_as("prover"):
        problems = held_out_by_rung(trainer.domain, RUNGS, each)
        found = evaluate_prover(
            trainer.policies.module, trainer.processing_class, problems, trainer.domain, 16, (1, 16), max_new_tokens=6
        )
    rows = [row for row in trainer.state.log_history if "round/generations" in row]
    steps = sum(row.get("prover/steps", 0.0) for row in rows)
    wanted = ("round/rung_", "proposer/rung", "prover/steps", "round/solve_rate_mean", "conjecturer/admitted_rate")
    curve = [{k: v for k, v in row.items() if k.startswith(wanted)} for row in rows]
    facts = {"arm": arm, "seed": seed, "rounds": rounds, "steps": steps, **spent, "curve": curve}
    return found.to_dict() | facts | {"answers": trainer.frame.samples}


def table(folder: Path) -> str:
    """Means over the seeds of pass@1 / pass@16 by rung, and of their mean over rungs 4 to 10, with its range."""
    jobs = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    lines = ["| arm (seeds) | " + " | ".join(map(str, RUNGS)) + " | mean of 4 to 10 [least, most] | steps | CPU s |"]
    lines.append("|---" * (len(RUNGS) + 4) + "|")
    for arm in dict.fromkeys(job["arm"] for job in jobs):
        own = [job for job in jobs if job["arm"] == arm]

        def mean(values: list[float]) -> float:
            return sum(values) / len(values)

        cells = []
        for rung in RUNGS:
            at = [[job["by_rung"][str(rung)]["pass_at"][k]["value"] for job in own] for k in ("1", "16")]
            cells.append(" / ".join(f"{mean(values):.2f}" for values in at))
        scores = {k: [job["ladder"]["pass_at"][k]["value"] for job in own] for k in ("1", "16")}
        cells.append(" / ".join(f"{mean(v):.3f} [{min(v):.3f}, {max(v):.3f}]" for v in scores.values()))
        cells += [f"{mean([job[name] for job in own]):.0f}" for name in ("steps", "cpu_seconds")]
        lines.append(f"| {arm} ({len(own)}) | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arms", nargs="+", default=["trained", "frozen", "placebo", "uniform", "hard", "bandit"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--rounds", type=int, default=60, help="of 512 answers")
    parser.add_argument("--each", type=int, default=64, help="held-out problems of each rung")
    parser.add_argument("--part", default="0/1", help="which of how many equal parts of the jobs to play")
    parser.add_argument("--output", type=Path, default=Path("runs/ladder"))
    parser.add_argument("--table", action="store_true", help="print the table of the finished jobs and stop")
    asked = parser.parse_args()
    own, parts = map(int, asked.part.split("/"))
    jobs = [(arm, seed) for seed in asked.seeds for arm in asked.arms]
    asked.output.mkdir(parents=True, exist_ok=True)
    for i, (arm, seed) in enumerate(jobs):
        file = asked.output / f"{arm}-{seed}-{asked.rounds}.json"
        if asked.table or file.exists() or i % parts != own:
            continue
        found = play(arm, seed, asked.rounds, asked.output, asked.each)
        file.write_text(json.dumps(found))
        print(
            f"{arm} seed {seed}: {found['ladder']['pass_at']['1']['value']:.3f}, {found['steps']:.0f} steps",
            flush=True,
        )
    print(table(asked.output))


if __name__ == "__main__":
    main()
