"""The ladder's table: arms with equal answers, from a prover that has seen two and three numbers (docs/ladder.md).

    python studies/ladder.py --arms trained frozen placebo uniform --seeds 1 2 3 --output runs/ladder

Each finished job is a JSON file in the output folder, and is not played again; `--part 0/2` and `--part 1/2` share the
jobs out between two shells. With `--every` a job keeps a checkpoint as often as it measures, and goes on from it.
`--table` prints the table of what is there. Another range (`--largest 40`) needs a conjecturer that has seen it:
`python -m tools.make_tiny_model.ladder --output DIR --largest 40`, then `--models DIR`.

Two arms are references and no rivals, for what they are told was measured besides. `oracle` plays the two rungs that
gained most in short runs of `countdown-selfplay headroom`, by its table (`--gains FILE`). `half` plays the two whose
solve rate is nearest one half, measured every third round on 16 new problems of each rung, 8 answers each; its job
counts those answers apart, as `probe_answers`.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from countdown_selfplay.statistics.bootstrap import holm, two_level_draws, two_level_interval, two_sided_p
from countdown_selfplay.statistics.pass_at_k import pass_at_k_array

RUNGS = list(range(3, 11))
SCORED = RUNGS[1:]
"""The rungs that the warm start has not seen."""
KS = (1, 16)
KEPT = ("pass_at", "reasons", "setting", "by_rung", "ladder")
"""What a finished job holds of the evaluation."""
KINDS: dict[str, dict[str, Any]] = {
    "trained": {},
    "frozen": {"conjecturer_learning_rate": 0.0},
    "placebo": {"shuffled_rewards": True},
    "uniform": {"proposer": "uniform_rungs", "conjecturer_players": 0},
}
KINDS["bandit"] = {**KINDS["uniform"], "proposer": "bandit_rungs"}
KINDS["hard"] = {**KINDS["uniform"], "proposer_kwargs": {"rungs": [8, 9, 10]}}
KINDS["oracle"] = {**KINDS["uniform"], "proposer": "oracle_rungs"}
KINDS["half"] = {**KINDS["oracle"], "proposer_kwargs": {"kind": "half"}}
KINDS["repaired"] = {"proposer": "policies", "proposer_kwargs": {"repair": True}}
KINDS["repaired_frozen"] = {**KINDS["repaired"], **KINDS["frozen"]}
EVERY_ANSWER = {"prover_objective_kwargs": {}, "prover_sequences_per_step": 512, "steps_per_round": 1}
for name in ("rloo", "reinforce_half", "maxrl"):
    KINDS[name] = {**EVERY_ANSWER, "prover_objective": name, "prover_learning_rate": 3e-4}
    KINDS[f"{name}_alone"] = {**KINDS[name], "prover_demonstrations_per_step": 0, "prover_sft_coef": 0.0}
for control in ("frozen", "placebo", "uniform", "bandit", "hard"):
    KINDS[f"rloo_{control}"] = {**KINDS["rloo"], **KINDS[control]}
"""Arm -> what it changes in the recipe tiny/ladder. `NAME@R`: with each right answer seen R times, for equal steps.
`demonstrations@N`: N steps on demonstrations alone."""


GAINS = Path(__file__).parents[1] / "docs" / "benchmarks" / "ladder" / "headroom" / "gains.json"
QUIET = {"save_strategy": "no", "report_to": "none", "disable_tqdm": True, "eval_strategy": "no"}
CURVE = ("round/rung_", "proposer/rung", "prover/steps", "round/solve_rate_mean", "conjecturer/admitted_rate")
"""What is kept of a round's log; zeros are left out."""


def settings(arm: str, largest: int = 20, gains: Path = GAINS) -> dict[str, Any]:
    kind, _, reuse = arm.partition("@")
    found = dict(KINDS[kind])
    if kind == "oracle":
        found["proposer_kwargs"] = {"gains": str(gains)}
    found["operands"] = list(range(3, largest + 1))
    if found.get("conjecturer_players") != 0:
        found["conjecturer_max_completion_length"] = largest + 4
    if reuse:
        kept = {"reuse": float(reuse), "per_problem": 2, "capacity": 2000, "per_token": True}
        found |= {"prover_objective_kwargs": kept, "steps_per_round": 24}
    return found


def play(arm: str, seed: int, folder: Path, asked: argparse.Namespace) -> dict[str, Any]:
    """Train one arm and measure its prover on held-out problems of each rung."""
    from countdown_selfplay.tiny import LADDER_MODEL_PATHS

    own = LADDER_MODEL_PATHS if asked.models is None else {role: asked.models / role for role in LADDER_MODEL_PATHS}
    models = {role: str(path) for role, path in own.items()}
    if arm.startswith("demonstrations@"):
        found = demonstrated(models["prover"], int(arm.partition("@")[2]), seed, folder, asked.each)
    else:
        found = self_played(models, settings(arm, asked.largest, asked.gains), seed, folder, asked)
    return {"arm": arm, "seed": seed, "rounds": asked.rounds, **found}


def self_played(
    models: dict[str, str], changes: dict[str, Any], seed: int, folder: Path, asked: argparse.Namespace
) -> dict[str, Any]:
    from transformers import TrainerCallback

    from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig

    kept = {"save_strategy": "steps", "save_steps": asked.every, "save_total_limit": 1} if asked.every else {}
    config = JointSelfPlayConfig.from_recipe(
        "tiny/ladder",
        **{**QUIET, **kept},
        **changes,
        max_steps=asked.rounds,
        seed=seed,
        output_dir=str(folder),
    )
    seen = folder / "watched.json"
    again = bool(asked.every) and seen.exists() and any(folder.glob("checkpoint-*"))
    watched: list[dict[str, Any]] = json.loads(seen.read_text()) if again else []

    class Watch(TrainerCallback):
        """Ends the run when its CPU seconds are spent, and measures the prover every so many rounds."""

        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **more: Any) -> None:
            if "round/generations" not in (logs or {}):
                return
            if asked.cpu_seconds is not None and time.process_time() - cpu > asked.cpu_seconds:
                control.should_training_stop = True
            elif asked.every and trainer.counts.rounds % asked.every == 0:
                spent = earlier + time.process_time() - cpu
                here = {"round": trainer.counts.rounds, "cpu_seconds": spent, **measured_of(trainer, asked.each)}
                watched[:] = [one for one in watched if one["round"] < here["round"]] + [here]
                seen.write_text(json.dumps(watched))

    trainer = JointConjecturerProverTrainer(
        models if config.players_of("conjecturer") else models["prover"], args=config, callbacks=[Watch()]
    )
    earlier = watched[-1]["cpu_seconds"] if watched else 0.0
    start, cpu = time.perf_counter(), time.process_time()
    trainer.train(resume_from_checkpoint=True if again else None)
    spent = {"seconds": time.perf_counter() - start, "cpu_seconds": earlier + time.process_time() - cpu}
    found = measured_of(trainer, asked.each)
    if asked.keep:
        trainer.policies.module.save_pretrained(folder / "prover")
        trainer.processing_class.save_pretrained(folder / "prover")
    rows = [row for row in trainer.state.log_history if "round/generations" in row]
    steps = sum(row.get("prover/steps", 0.0) for row in rows)
    probed = sum(row.get("proposer/probe_answers", 0.0) for row in rows)  # they are in `samples` too
    curve = [{k: v for k, v in row.items() if k.startswith(CURVE) and v != 0} for row in rows]
    answers = {**trainer.counts.samples, "prover": trainer.counts.samples.get("prover", 0) - int(probed)}
    played = {"rounds": trainer.counts.rounds, "answers": answers, "watched": watched}
    return {
        **found,
        "steps": steps,
        **spent,
        "curve": curve,
        **played,
        **({"probe_answers": probed} if probed else {}),
    }


def demonstrated(model: str, steps: int, seed: int, folder: Path, each: int) -> dict[str, Any]:
    """No self-play: as many steps on demonstrations of two and three numbers alone, of 400 moves, which are about as
    many episodes as a step of the other arms has."""
    from countdown_selfplay.cli.main import main as command
    from countdown_selfplay.tiny import load_tiny_model

    flags = {
        "model_name_or_path": model,
        "output_dir": folder,
        "seed": seed,
        "max_steps": steps,
        "eval_problems": 0,
        "answers": "moves",
        "prover_prompt": "compact_moves",
        "conjecturer_prompt": "compact_any",
        "operands": "2 3 3",
        "number_low": 1,
        "number_high": 12,
        "target_low": 1,
        "target_high": 99,
        "demonstrations": 30_000,
        "per_device_train_batch_size": 400,
        "gradient_accumulation_steps": 1,
        "learning_rate": 8e-4,
        "lr_scheduler_type": "constant",
        "adam_beta2": 0.98,
        "weight_decay": 0.0,
        "warmup_steps": 0,
        **QUIET,
    }
    start, cpu = time.perf_counter(), time.process_time()
    failed = command(["sft", *(word for name, value in flags.items() for word in (f"--{name}", *str(value).split()))])
    if failed:
        raise SystemExit(failed)
    spent = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
    found = measured(*load_tiny_model(folder), each)
    return {**found, "steps": steps, **spent, "curve": [], "answers": 0}


def measured_of(trainer: Any, each: int) -> dict[str, Any]:
    from countdown_selfplay.training.rollouts import sampling_as

    with sampling_as(trainer.engine, "prover"):
        return measured(trainer.policies.module, trainer.processing_class, each)


def measured(model: Any, tokenizer: Any, each: int) -> dict[str, Any]:
    """pass@1 and pass@16 of a prover on `each` held-out problems of each rung, by problem."""
    from countdown_selfplay.countdown import CountdownDomain
    from countdown_selfplay.domains import held_out_by_rung
    from countdown_selfplay.evaluation.roles import evaluate_prover

    domain = CountdownDomain.ladder()
    problems = held_out_by_rung(domain, RUNGS, each)
    found = evaluate_prover(model, tokenizer, problems, domain, 16, KS, max_new_tokens=6).to_dict()
    return {name: value for name, value in found.items() if name in KEPT}


def rates(job: dict[str, Any], k: int) -> np.ndarray:
    """pass@k of each held-out problem of the rungs 4 to 10, rung by rung: equally many of each."""
    rungs = [job["by_rung"][str(rung)] for rung in SCORED]
    return np.concatenate([pass_at_k_array(rung["correct"], rung["n"], k) for rung in rungs])


def table(folder: Path, reference: str = "trained") -> str:
    """Means over the seeds of pass@1 / pass@16 by rung, and of their mean over rungs 4 to 10, with its range."""
    jobs = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    lines = ["| arm (seeds) | " + " | ".join(map(str, RUNGS)) + " | mean of 4 to 10 [least, most] | steps | CPU s |"]
    lines.append("|---" * (len(RUNGS) + 4) + "|")
    arms = {arm: [job for job in jobs if job["arm"] == arm] for arm in dict.fromkeys(job["arm"] for job in jobs)}
    for arm, own in arms.items():
        cells = []
        for rung in RUNGS:
            at = [np.mean([job["by_rung"][str(rung)]["pass_at"][k]["value"] for job in own]) for k in ("1", "16")]
            cells.append(" / ".join(f"{value:.2f}" for value in at))
        scores = [[float(rates(job, k).mean()) for job in own] for k in KS]
        cells.append(" / ".join(f"{np.mean(v):.3f} [{min(v):.3f}, {max(v):.3f}]" for v in scores))
        cells += [f"{np.mean([job[name] for job in own]):.0f}" for name in ("steps", "cpu_seconds")]
        lines.append(f"| {arm} ({len(own)}) | {' | '.join(cells)} |")
    return "\n".join(lines + differences(arms, reference))


def differences(arms: dict[str, list[dict[str, Any]]], reference: str) -> list[str]:
    """How far the reference is ahead of each other arm on the mean of the rungs 4 to 10: a table with two-level
    intervals (seeds and problems, `two_level_draws`) and p-values adjusted over all rows (Holm)."""
    others = [arm for arm in arms if arm != reference and reference in arms]
    rows = [(arm, k) for arm in others for k in KS]
    if not rows:
        return []
    found = []
    for arm, k in rows:
        below, above = (np.stack([rates(job, k) for job in arms[name]]) for name in (arm, reference))
        found.append((two_level_interval(below, above), two_level_draws(below, above, 10_000, 0), below.shape[1]))
    adjusted = holm([two_sided_p(draws, problems) for _, draws, problems in found])
    lines = [
        "",
        f"| {reference} ahead of | " + " | ".join(f"pass@{k} | p (Holm)" for k in KS) + " |",
        "|---" * 5 + "|",
    ]
    cells = [
        f"{i.difference:+.3f} [{i.low:.3f}, {i.high:.3f}] | {p:.4f}"
        for (i, *_), p in zip(found, adjusted, strict=True)
    ]
    return lines + [f"| {arm} | {' | '.join(cells[2 * i : 2 * i + 2])} |" for i, arm in enumerate(others)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arms", nargs="+", default=["trained", "frozen", "placebo", "uniform", "hard", "bandit"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--rounds", type=int, default=60, help="of 512 answers")
    parser.add_argument("--each", type=int, default=64, help="held-out problems of each rung")
    parser.add_argument("--largest", type=int, default=20, help="the most numbers in a problem")
    parser.add_argument("--cpu_seconds", type=float, help="end the training when it has taken so many")
    parser.add_argument("--every", type=int, default=0, help="measure every so many rounds too")
    parser.add_argument("--keep", action="store_true", help="save the trained provers")
    parser.add_argument("--models", type=Path, help="a folder of another warm start, with prover/ and conjecturer/")
    parser.add_argument("--gains", type=Path, default=GAINS, help="the table of the arm oracle, of headroom")
    parser.add_argument("--part", default="0/1", help="which of how many equal parts of the jobs to play")
    parser.add_argument("--output", type=Path, default=Path("runs/ladder"))
    parser.add_argument("--table", action="store_true", help="print the table of the finished jobs and stop")
    parser.add_argument("--reference", default="trained", help="the arm that the table compares with the others")
    asked = parser.parse_args()
    own, parts = map(int, asked.part.split("/"))
    jobs = [(arm, seed) for seed in asked.seeds for arm in asked.arms]
    asked.output.mkdir(parents=True, exist_ok=True)
    for i, (arm, seed) in enumerate(jobs):
        file = asked.output / f"{arm}-{seed}-{asked.rounds}.json"
        if asked.table or file.exists() or i % parts != own:
            continue
        found = play(arm, seed, asked.output / f"{arm}-{seed}", asked)
        file.write_text(json.dumps(found))
        print(
            f"{arm} seed {seed}: {found['ladder']['pass_at']['1']['value']:.3f}, {found['steps']:.0f} steps",
            flush=True,
        )
    print(table(asked.output, asked.reference))


if __name__ == "__main__":
    main()
