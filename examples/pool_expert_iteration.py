"""The findings of seed 000 on the embedded model: a pool of tiered conjecturers and provers, and its controls.

    python examples/pool_expert_iteration.py                 # 5 seeds, two processes
    python examples/pool_expert_iteration.py --quick         # 1 seed, a few rounds: does everything run?
    python examples/pool_expert_iteration.py --warm_start    # only the models that the pools start from
    python examples/pool_expert_iteration.py --arms pool single --seeds 1 2

Every arm starts from warm-started models: provers that sometimes solve four numbers, two of them from disjoint
problems, and a conjecturer that knows the form. The pool and its control play 100 rounds, the findings' arms 30. All
are scored on the same held-out problems with equally many answers: what a pool of two provers solves, against one
prover that had, and has, as many samples as both. Runs are resumable: start the command again and it goes on where it
stopped. (The compact prompt shows no worked example, so that copies of one cannot be studied here.)
Written to --folder: a run folder per arm and seed, their reports' table 2 and figure 1, `study.md`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import multiprocessing.pool
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

ROUNDS, SHORT = 100, 30
HELD_OUT, ANSWERS = 256, 32  # answers to a problem, of all provers together
KS = (1, 8)

TIERS = {"start": [3, 4], "low": 0.2, "high": 0.7, "floor": 2, "ceiling": 4, "min_valid": 6}
APART = [{"model": "prover_a", "temperature": 0.8}, {"model": "prover_b", "temperature": 1.2}]
ARMS: dict[str, dict[str, Any]] = {
    "pool": {},
    # One prover with the samples of both: twice the answers to each problem.
    "single": {"roles": {"prover": {"players": 1, "num_generations": 8, "micro_batches": 16}}},
    "per_prover_rate": {"solve_rate_over": "provers"},
    "solver_as_conjecturer": {"roles": {"conjecturer": {"model": "prover_a"}}},
    "other_phrasing": {"phrasing": "turned"},
    "several_phrasings": {"phrasing": "turned", "roles": {"prover": {"model": "prover_both"}}},
    "hysteresis": {"proposer_kwargs": {**TIERS, "hysteresis": True, "window": 3}},
    "diverse": {"roles": {"prover": {"each": APART}}},
    "weighted": {  # examples count by their distance to the frontier's centre
        "conjecturer_reward": "frontier_distance",
        "conjecturer_reward_kwargs": {"low": 0.1, "high": 0.7},
        "roles": {"conjecturer": {"objective_kwargs": {"rounds": 1, "tau": 0, "weighted": True}}},
    },
}
LONG = ("pool", "single")


# -- the models that the pools start from ----------------------------------------------------------------------------


def warm_start(root: Path, quick: bool) -> None:
    """Make the models that are missing, two at a time: prover_a and prover_b from disjoint problems of two to four
    numbers, prover_both from prover_a's under two phrasings, and the conjecturer."""
    from countdown_selfplay.countdown import generate_problems
    from countdown_selfplay.warm_starts.demonstrations import generated_rows

    count = 256 if quick else 6144
    domain = domain_of("compact")
    root.mkdir(parents=True, exist_ok=True)
    # There are 212 training problems of two numbers and 4,101 of three: each prover gets half of them.
    keys = [domain.key(problem) for problem in generate_problems(2 * count, domain.spec, seed=0)]
    rows = {"prover_a": generated_rows(count, "prover", domain, 0, exclude=keys[1::2], per_problem=4)}
    taken = {*keys[::2], *(domain.key(domain.problem(row)) for row in rows["prover_a"])}
    rows["prover_b"] = generated_rows(count, "prover", domain, 1, exclude=taken, per_problem=4)
    both = [row | {"prompt": turned(domain.problem(row))} for row in rows["prover_a"][::2]]
    rows["prover_both"] = rows["prover_a"][1::2] + both
    rows["conjecturer"] = generated_rows(256 if quick else 2048, "conjecturer", domain, 0)
    jobs = []
    for name, own in rows.items():
        if (root / name / "config.json").exists():
            continue
        (root / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in own))
        role = "conjecturer" if name == "conjecturer" else "prover"
        options = ["--role", role, "--dataset_name", str(root / f"{name}.jsonl"), "--output_dir", str(root / name)]
        jobs.append([*options, "--operands", "2", "3", "4", "--number_high", "12", "--eval_problems", "0"])
    with multiprocessing.pool.ThreadPool(2) as pool:
        pool.map(_fine_tune, jobs)


def _fine_tune(options: list[str]) -> None:
    command = [sys.executable, "-m", "countdown_selfplay.cli.main", "sft", "--recipe", "tiny/sft", *options]
    done = subprocess.run([*command, "--disable_tqdm", "true"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr[-2000:]}")


def turned(problem: Any) -> str:
    """Another phrasing of the compact prompt, `22 = 3 5 7 :` for `3 5 7 = 22 :`."""
    return f"{problem.target} = {' '.join(map(str, problem.numbers))} :"


def domain_of(phrasing: str) -> Any:
    """The recipe's Countdown, its problems put to provers in that phrasing."""
    from countdown_selfplay.countdown import PROVER_PROMPTS, CountdownDomain, ProblemSpec

    PROVER_PROMPTS["turned"] = turned
    made = CountdownDomain.tiny()
    spec = ProblemSpec((2, 3, 4), number_low=1, number_high=12, target_low=1, target_high=99)
    return replace(made, spec=spec, prover_prompt=phrasing, admit_unsolvable=True)


# -- a run -----------------------------------------------------------------------------------------------------------


def run(task: tuple[str, int, str, bool]) -> None:
    """Train and score one arm with one seed, or finish what an earlier call began."""
    arm, seed, root, quick = task
    folder = Path(root) / arm / f"seed-{seed}"
    if (folder / "evaluation.json").exists():
        return
    os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")
    import torch
    import transformers
    from datasets import Dataset

    from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
    from countdown_selfplay.evaluation.pooled import pooled
    from countdown_selfplay.training.checkpoints import newest
    from countdown_selfplay.training.evaluation import evaluate_provers

    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    changes = dict(ARMS[arm])
    domain = domain_of(changes.pop("phrasing", "compact"))
    steps = (6 if quick else ROUNDS) if arm in LONG else (4 if quick else SHORT)
    args = JointSelfPlayConfig.from_recipe(
        "tiny/pool",
        output_dir=str(folder),
        seed=seed,
        max_steps=steps,
        save_steps=max(steps // 2, 1),
        export_every=0,
        report_to="none",
        disable_tqdm=True,
        guard=False,  # a control must not be rolled back
        **{**changes, "roles": _roles(changes.get("roles", {}), Path(root) / "start")},
    )
    held_out = domain.held_out(HELD_OUT // (8 if quick else 1))
    rows = [{"nums": list(p.numbers), "target": p.target} for p in held_out]
    start = time.perf_counter()
    trainer = JointConjecturerProverTrainer(
        str(Path(root) / "start" / "prover_a"), args=args, eval_dataset=Dataset.from_list(rows), domain=domain
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train(resume_from_checkpoint=newest(folder, 1) is not None)
    answers = ANSWERS // len(args.players_of("prover"))
    each = evaluate_provers(trainer, held_out, answers, KS)
    found = pooled([*each.values()], KS)
    result = {name: one.to_dict() for name, one in each.items()} | {"prover": found.to_dict()}
    partial = folder / "evaluation.json.part"  # renamed last: its presence says that the run is finished
    partial.write_text(json.dumps({"before": {}, "after": result, "samples": trainer.frame.samples}))
    partial.rename(folder / "evaluation.json")
    at = found.pass_at
    print(f"{arm:>22} seed {seed}: pass@1 {at[1].value:.3f}  pass@8 {at[8].value:.3f}  "
          f"({time.perf_counter() - start:.0f} s)", flush=True)  # fmt: skip


def _roles(own: dict[str, Any], start: Path) -> dict[str, Any]:
    """The arm's settings of roles over the study's, names of models as folders."""
    roles: dict[str, Any] = {"prover": {"model": "prover_a"}, "conjecturer": {"model": "conjecturer"}}
    roles = {kind: {**settings, **own.get(kind, {})} for kind, settings in roles.items()}
    for settings in roles.values():
        for place in (settings, *settings.get("each", [])):
            if "model" in place:
                place["model"] = str(start / Path(place["model"]).name)
    return roles


# -- what is told ----------------------------------------------------------------------------------------------------


def tables(root: Path, arms: Sequence[str], seeds: Sequence[int]) -> str:
    """Markdown: what the paper measures, early and late, and what the arms solve on held-out problems."""
    from countdown_selfplay.evaluation.compare.arms import aligned_arms, load_arms
    from countdown_selfplay.evaluation.compare.comparison import compare_arms

    lines = [
        "| arm | valid, rounds 1-5 -> last 5 | pass rate | frontier, rounds 1-5 | operands at the end | moves a tier "
        "| distinct rates a round |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [_row(root, arm, seeds) for arm in arms]
    words = [
        f"{arm}={','.join(str(root / arm / f'seed-{seed}' / 'evaluation.json') for seed in seeds)}" for arm in arms
    ]
    lines += ["", f"| arm | {' | '.join(f'pass@{k}' for k in KS)} | minus single |", "|---|---|---|---|"]
    loaded = sorted(aligned_arms(load_arms(words)), key=lambda arm: arm.name != "single")
    found = compare_arms(loaded, KS)
    for arm in loaded:
        against = [d for d in found.differences if d.arm == arm.name]
        told = [
            f"@{d.k} {d.percentile.difference:+.3f} [{d.percentile.low:+.3f}, {d.percentile.high:+.3f}]"
            for d in against
        ]
        values = " | ".join(f"{found.values[arm.name, k].value:.3f}" for k in KS)
        lines.append(f"| {arm.name} | {values} | {', '.join(told)} |")
    return "\n".join(lines) + "\n"


def _row(root: Path, arm: str, seeds: Sequence[int]) -> str:
    from countdown_selfplay.evaluation.report.load import load_run
    from countdown_selfplay.evaluation.report.pool import ends

    runs = [load_run(root / arm / f"seed-{seed}") for seed in seeds]

    def mean(values: Sequence[float | None]) -> str:
        known = [value for value in values if value is not None]
        return f"{sum(known) / len(known):.2f}" if known else "-"

    cells = []
    for metric in ("valid_conjecture_rate", "mean_prover_pass_rate"):
        early, late = zip(*(ends(run, metric) for run in runs), strict=True)
        cells.append(f"{mean(early)} -> {mean(late)}")
    cells.append(mean([ends(run, "round/frontier_share")[0] for run in runs]))
    counts = [[value for _, value in run.series(f"tier_{k}_operand_count")] for run in runs for k in (0, 1)]
    cells.append(", ".join(mean([own[-1] for own in counts[k::2]]) for k in (0, 1)))
    cells.append(mean([sum(a != b for a, b in pairwise(own)) for own in counts]))
    bins = [sum(count > 0 for count in found) for run in runs for found in run.histograms.values()]
    cells.append(mean(bins))
    return f"| {arm} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("runs/pool-study"))
    parser.add_argument("--seeds", type=int, nargs="+", default=None, help="Default: 1 to 5; 1 with --quick.")
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--workers", type=int, default=2, help="Runs side by side, one core each.")
    parser.add_argument("--quick", action="store_true", help="One seed and a few rounds of every arm.")
    parser.add_argument("--warm_start", action="store_true", help="Make the models in FOLDER/start and stop.")
    options = parser.parse_args()
    start = time.perf_counter()
    seeds = options.seeds or ([1] if options.quick else [1, 2, 3, 4, 5])
    root = options.folder / "quick" if options.quick else options.folder
    warm_start(root / "start", options.quick)
    if options.warm_start:
        print(f"{time.perf_counter() - start:.0f} s: {root / 'start'}")
        return
    first = [arm for arm in options.arms if arm in LONG]
    order = [*first, *(arm for arm in options.arms if arm not in LONG)]
    tasks = [(arm, seed, str(root), options.quick) for arm in order for seed in seeds]
    with multiprocessing.get_context("spawn").Pool(options.workers, maxtasksperchild=10) as pool:
        for _ in pool.imap_unordered(run, tasks):
            pass
    text = tables(root, options.arms, seeds)
    (root / "study.md").write_text(text)
    print(f"\n{text}\n{time.perf_counter() - start:.0f} s. Also in {root / 'study.md'}.")


if __name__ == "__main__":
    sys.exit(main())
