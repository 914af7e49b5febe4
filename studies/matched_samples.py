"""Does the conjecturer earn its keep? Self-play against its controls at equal numbers of prover samples.

    python studies/matched_samples.py             # 5 seeds, two processes: under an hour on two cores
    python studies/matched_samples.py --arms plain joint_tent --seeds 0 1
    python studies/matched_samples.py --number_high 40 --arms plain random joint_best

The embedded model knows numbers up to 12; the study's problems have numbers up to 20 (or --number_high), so most of
them are too hard for it at first. Every arm plays 80 rounds of 32 problems x 8 answers from the same weights and is
scored on the same problems, 16 answers each: 1,024 held-out ones (all 638 with numbers up to 12, which the model can
read, and 386 others), and, for the arms that matter most, 512 withheld ones, which the warm start has seen but no run
plays. Runs are resumable: start the command again and it goes on where it stopped; what is finished is read, not
repeated. Written to --folder: a run folder per arm and seed, `study.md`, the figures and
the right answers per problem and seed as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from many_runs import FINISHED, play_all, run_folder

from countdown_selfplay.cli.main import as_program

HELD_OUT, WITHHELD, ANSWERS = 1024, 512, 16
SCORED = 20  # greatest number of the held-out problems, whatever the training problems' is
KNOWN = 12  # greatest number that the embedded model has met as an operand
ANCHORS = 512  # problems of the fixed training set, drawn anew for each training seed

COMMON: dict[str, Any] = dict(
    max_steps=80,
    per_device_train_batch_size=64,
    problems_per_round=32,
    proposals_per_round=64,
    num_generations=8,
    conjecturer_num_generations=64,
    prover_learning_rate=5e-5,
    conjecturer_learning_rate=1e-4,
    lr_scheduler_type="constant_with_warmup",
    warmup_steps=10,
    beta=0.0,
    conjecturer_beta=0.05,
    conjecturer_reward="tent",
    anchor_fraction=0.5,
    novelty_window=20,
    prover_prompt="compact",
    conjecturer_prompt="compact",
    operands=[3],
    number_low=1,
    number_high=SCORED,
    target_low=1,
    target_high=99,
    max_completion_length=16,
    gradient_checkpointing=False,
    save_steps=40,
    save_total_limit=1,
    guard=False,  # a control must not be rolled back
    use_cpu=True,
    disable_tqdm=True,
    report_to="none",
)
ALONE = dict(conjecturer_players=0)
# Chosen on training seeds 11 and 12 by 512 problems that no table here uses, see docs/results/matched_samples.md.
PROVER = dict(prover_objective="maxrl")  # the gradient of the expected log solve rate
BEST = dict(
    conjecturer_reward="learnability",
    anchor_fraction=0.0,
    proposals_per_round=128,  # enough to fill all slots
    conjecturer_num_generations=128,
    **PROVER,
)
REWARDS: dict[str, dict[str, Any]] = {  # without disagreement: with one prover it is learnability
    "binary_band": {},
    "learnability": {},
    "r_zero": {},
    "sgs": {},
    "frontier_distance": {},
    "difficulty_diversity": {},
    "adaptive_band": {},
    "solvability_aware": {},
}
ARMS: dict[str, dict[str, Any]] = {
    "plain": {**ALONE},  # RLOO on the fixed training set
    "random": {**ALONE, "random_fraction": 0.5},  # half of the problems made anew by the solver, nobody choosing them
    "joint_truncate": {"fill": "truncate", "truncate_multiple": 8},
    "joint_tent": {},
    **{f"joint_{name}": {"conjecturer_reward": name, **more} for name, more in REWARDS.items()},
    # The best setting found; its prover alone, with random problems, and with a conjecturer that never learns
    "joint_best": BEST,
    "plain_best": {**ALONE, **PROVER},
    "random_best": {**ALONE, **PROVER, "random_fraction": 1.0},
    "frozen_best": {**BEST, "conjecturer_learning_rate": 0.0},
}
CORE = ("plain", "random", "joint_best", "plain_best", "random_best", "frozen_best")


def run(task: tuple[str, int, str, int]) -> None:
    """Train and score one arm with one seed, or finish what an earlier call began."""
    arm, seed, root, number_high = task
    folder = run_folder(root, arm, seed)
    if (folder / FINISHED).exists():
        return
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for tools/
    import datasets
    import transformers
    from tools.make_tiny_model.figures import held_out_problems

    from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
    from countdown_selfplay.config.recipes import as_fields
    from countdown_selfplay.countdown import ProblemSpec, generate_problems
    from countdown_selfplay.domains import domain_from
    from countdown_selfplay.evaluation import evaluate_prover
    from countdown_selfplay.tiny import TINY_MODEL_PATH
    from countdown_selfplay.training.checkpoints import newest
    from countdown_selfplay.training.rollouts import sampling_as

    settings = {**COMMON, "number_high": number_high, **ARMS[arm]}
    args = JointSelfPlayConfig(output_dir=str(folder), seed=seed, **as_fields(settings))
    domain = domain_from(args)
    held_out = study_problems(held_out_problems(replace(domain.spec, number_high=SCORED)))
    seen = ProblemSpec((3,), number_high=KNOWN, target_low=1, target_high=99)
    withheld = generate_problems(WITHHELD, seen, seed=7)
    anchors = generate_problems(ANCHORS, domain.spec, seed=seed, exclude=withheld)

    def rows(problems: list[Any]) -> Any:
        return datasets.Dataset.from_list([{"nums": list(p.numbers), "target": p.target} for p in problems])

    start = time.perf_counter()
    trainer = JointConjecturerProverTrainer(
        str(TINY_MODEL_PATH), args=args, train_dataset=rows(anchors), eval_dataset=rows(held_out + withheld)
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train(resume_from_checkpoint=newest(folder, 1) is not None)
    seconds = sum(json.loads(line).get("step_time", 0.0) for line in (folder / "metrics.jsonl").open())
    sampling: dict[str, Any] = dict(n=ANSWERS, ks=(1, 8, 16), max_new_tokens=args.max_completion_length)
    with sampling_as(trainer.engine, "prover"):
        policy = trainer.policies.module, trainer.processing_class
        found = evaluate_prover(*policy, held_out, domain, **sampling)
        again = evaluate_prover(*policy, withheld, domain, **sampling) if arm in CORE else None
    counts = trainer.counts
    cost = {
        "prover_samples": counts.samples["prover"],
        "prover_tokens": counts.tokens["prover"],
        "conjecturer_samples": counts.samples.get("conjecturer", 0),
        "conjecturer_tokens": counts.tokens.get("conjecturer", 0),
        "starved_rounds": trainer.game.archive.starved_rounds,
        "seconds": seconds,
    }
    if again is not None:
        (folder / "withheld.json").write_text(json.dumps(again.to_dict()))
    # Written last: its presence says that the run is finished.
    partial = folder / "evaluation.json.part"
    partial.write_text(json.dumps({"after": {"prover": found.to_dict()}, "cost": cost}))
    partial.rename(folder / "evaluation.json")
    at = found.pass_at
    print(
        f"{arm:>28} seed {seed}: pass@1 {at[1].value:.3f}  pass@16 {at[16].value:.3f}  "
        f"({time.perf_counter() - start:.0f} s)",
        flush=True,
    )


def study_problems(held_out: list[Any]) -> list[Any]:
    """All held-out problems with numbers that the model knows (638), filled up to 1,024 with others."""
    known = [problem for problem in held_out if max(problem.numbers) <= KNOWN]
    others = [problem for problem in held_out if max(problem.numbers) > KNOWN]
    return known + others[: HELD_OUT - len(known)]


def table(root: Path, arms: list[str], seeds: list[int], file: str, title: str) -> str:
    """Markdown: pass@k of each arm on the problems of `file`, its differences to the controls with 95% intervals, and
    what it cost."""
    from countdown_selfplay.lab.compare import aligned_arms, compare_arms, load_arms, write_counts

    paths = {arm: [root / arm / f"seed-{seed}" for seed in seeds] for arm in arms}
    words = [f"{arm}={','.join(str(path / file) for path in found)}" for arm, found in paths.items()]
    loaded = aligned_arms(load_arms(words))
    write_counts(root / f"counts_{file}", loaded)
    by_name = {arm.name: arm for arm in loaded}
    controls = [name for name in ("plain", "random", "random_best") if name in by_name]
    lines = [
        "| arm | pass@1 | pass@8 | pass@16 | " + " | ".join(f"minus {c}, pass@1 | pass@16" for c in controls)
        + " | proposals | tokens | seconds | starved rounds |",
    ]  # fmt: skip
    lines.append("|---" * (lines[0].count("|") - 1) + "|")
    against = {
        control: compare_arms([by_name[control], *(arm for arm in loaded if arm.name != control)], (1, 8, 16))
        for control in controls
        if len(loaded) > 1
    }
    out: dict[str, Any] = {control: found.to_dict() for control, found in against.items()}
    for arm in arms:
        values = next(iter(against.values())).values
        cells = [f"{values[arm, k].value:.3f}" for k in (1, 8, 16)]
        for found in against.values():
            own = {d.k: d.percentile for d in found.differences if d.arm == arm}
            cells += [_interval(own[k]) if own else "" for k in (1, 16)]
        costs = [json.loads((path / "evaluation.json").read_text())["cost"] for path in paths[arm]]
        mean = {name: sum(cost[name] for cost in costs) / len(costs) for name in costs[0]}
        tokens = (mean["prover_tokens"] + mean["conjecturer_tokens"]) / 1000
        cells += [f"{mean['conjecturer_samples']:,.0f}", f"{tokens:,.0f}k", f"{mean['seconds']:.0f}"]
        cells += [f"{mean['starved_rounds']:.1f}"]
        lines.append(f"| {arm} | " + " | ".join(cells) + " |")
        out.setdefault("cost", {})[arm] = mean
    notes = next(iter(against.values())).notes()
    (root / f"study_{file}").write_text(json.dumps(out, indent=1) + "\n")
    return "\n".join([f"### {title}", "", *lines, "", *(f"- {note}" for note in notes)]) + "\n"


def _interval(found: Any) -> str:
    bold = "**" if found.low > 0 or found.high < 0 else ""
    return f"{bold}{found.difference:+.3f}{bold} [{found.low:+.3f}, {found.high:+.3f}]"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="Default: runs/study, or runs/study-<number_high>.")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--workers", type=int, default=2, help="Runs side by side, one core each.")
    parser.add_argument("--number_high", type=int, default=SCORED, help="Greatest number of the training problems.")
    options = parser.parse_args(argv)
    if options.number_high < SCORED:
        parser.error(f"--number_high {options.number_high} must be at least {SCORED}, that of the scored problems.")
    options.folder = options.folder or Path(
        "runs/study" if options.number_high == SCORED else f"runs/study-{options.number_high}"
    )
    start = time.perf_counter()
    # The comparison that matters most comes first: a study that is cut short then lacks seeds of the other arms.
    first = [arm for arm in options.arms if arm in CORE]
    batches = first, [arm for arm in options.arms if arm not in CORE]
    root, high = str(options.folder), options.number_high
    tasks = [(arm, seed, root, high) for arms in batches for seed in options.seeds for arm in arms]
    play_all(run, tasks, options.workers)
    titles = {"evaluation.json": "1,024 held-out problems", "withheld.json": "512 withheld problems"}
    scored = {"evaluation.json": options.arms, "withheld.json": [arm for arm in options.arms if arm in CORE]}
    text = "\n".join(
        table(options.folder, scored[file], options.seeds, file, title)
        for file, title in titles.items()
        if scored[file]
    )
    (options.folder / "study.md").write_text(text)
    print(f"\n{text}\n{time.perf_counter() - start:.0f} s. Also in {options.folder}: study.md and the JSON files.")
    return 0


if __name__ == "__main__":
    as_program(main)
