"""Every row of seed 004's table at the size of the embedded model, and what of its findings holds here.

    python examples/symbolic_proposers.py                 # 5 seeds, two processes: hours on two cores
    python examples/symbolic_proposers.py --quick         # 1 seed, 20 rounds, the main rows: minutes
    python examples/symbolic_proposers.py --arms rloo ucb ours --seeds 0 1

An arm is a recipe of examples/recipes/tiny with a few changes. All start from the embedded model, play problems with
numbers up to 20 (it knows those up to 12) and are scored on the same 1,024 held-out problems, 16 answers each. The
RLOO run of a seed gives the labels of that seed's predictors. `rloo_matched` plays as many rounds more as UCB's
rollouts cost in answers; `trained`, `frozen` and `uniform` differ in nothing but how actions are chosen.

Runs are resumable: start the command again and it goes on where it stopped; what is finished is read, not repeated.
Written to --folder: a run folder per arm and seed, report.html of all runs (with the filtering table, the diversity of
the selected and the predictor's calibration), study.md and study.json.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import Any

ANSWERS, KS = 16, (1, 4, 16)
COMMON: dict[str, Any] = dict(
    number_high=20, save_steps=50, save_total_limit=1, guard=False, use_cpu=True, disable_tqdm=True, report_to="none"
)
LEARNED = dict(candidates=256, refresh=10, keep=48, difficulty="predictor", relabel_every=1, relabel=48)
ARMS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    # name: recipe, changes of it, changes of its proposer_kwargs
    "rloo": ("tiny/rloo", {}, {}),
    "rloo_matched": ("tiny/rloo", {"rounds": 1.2}, {}),
    "ucb": ("tiny/symbolic_ucb", {}, {}),
    "p_solver": ("tiny/symbolic_p_solver", {}, {}),
    "refresh": ("tiny/symbolic_refresh", {}, {}),
    "refresh_diversity": ("tiny/symbolic_refresh_diversity", {}, {}),
    "ours": ("tiny/symbolic_ours", {}, {}),
    "trained": ("tiny/symbolic_ucb", {"proposer": "factorized"}, LEARNED),
    "frozen": ("tiny/symbolic_ucb", {"proposer": "factorized"}, {**LEARNED, "learning_rate": 0.0}),
    "uniform": ("tiny/symbolic_ucb", {"proposer": "mutation"}, LEARNED),
}
WARM = ("sft", "ipo")  # the embedded model, which is warm-started; and after IPO on its own answers
QUICK = ("sft", "rloo", "ucb", "refresh", "refresh_diversity", "ours")


def run(task: tuple[str, int, str, int, int]) -> None:
    """Train and score one arm with one seed, or finish what an earlier call began."""
    arm, seed, root, rounds, problems = task
    folder = Path(root) / arm / f"seed-{seed}"
    if (folder / "evaluation.json").exists():
        return
    os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    start = time.perf_counter()
    found, cost = warm(arm, seed, folder, problems) if arm in WARM else train(arm, seed, folder, rounds, problems)
    # Written last: its presence says that the run is finished.
    partial = folder / "evaluation.json.part"
    partial.write_text(json.dumps({"after": {"prover": found.to_dict()}, "cost": cost}))
    partial.rename(folder / "evaluation.json")
    values = "  ".join(f"pass@{k} {found.pass_at[k].value:.3f}" for k in KS)
    print(f"{arm:>18} seed {seed}: {values}  ({time.perf_counter() - start:.0f} s)", flush=True)


def train(arm: str, seed: int, folder: Path, rounds: int, problems: int) -> tuple[Any, dict[str, Any]]:
    """The arm's run, and what its prover sampled."""
    from transformers import PrinterCallback

    from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
    from countdown_selfplay.config.countdown_fields import domain_from
    from countdown_selfplay.config.recipes import recipe_fields
    from countdown_selfplay.evaluation import evaluate_prover
    from countdown_selfplay.tiny import TINY_MODEL_PATH
    from countdown_selfplay.training.checkpoints import newest

    recipe, changes, of_proposer = ARMS[arm]
    changes = {**COMMON, **changes}
    changes["max_steps"] = round(rounds * changes.pop("rounds", 1))
    changes["guard_trips"] = None
    kwargs = dict(recipe_fields(recipe, {}, JointSelfPlayConfig).get("proposer_kwargs", {}))
    if kwargs:
        kwargs |= of_proposer
        if of_proposer or "labels" in kwargs.get("difficulty_kwargs", {}):
            labels = folder.parents[1] / "rloo" / f"seed-{seed}" / "solve_rates.jsonl"
            kwargs["difficulty_kwargs"] = {"labels": str(labels)}
        changes["proposer_kwargs"] = kwargs
    args = JointSelfPlayConfig.from_recipe(recipe, output_dir=str(folder), seed=seed, **changes)
    domain = domain_from(args)
    trainer = JointConjecturerProverTrainer(str(TINY_MODEL_PATH), args=args)
    trainer.remove_callback(PrinterCallback)
    trainer.train(resume_from_checkpoint=newest(folder, 1) is not None)
    with trainer.sampling_as("prover"):
        policy = trainer.policies.module, trainer.processing_class
        sampling: dict[str, Any] = dict(n=ANSWERS, ks=KS, max_new_tokens=args.max_completion_length)
        found = evaluate_prover(*policy, domain.held_out(problems), domain, **sampling)
    if arm == "rloo":
        from collect_solve_rates import main as collect

        from countdown_selfplay.training.exports import export_policies

        export_policies(trainer, folder)
        collect([str(folder), "--problems", str(2 * problems), "--seed", str(seed)])
    frame = trainer.frame
    return found, {"prover_samples": frame.samples["prover"], "prover_tokens": frame.tokens["prover"]}


def warm(arm: str, seed: int, folder: Path, problems: int) -> tuple[Any, dict[str, Any]]:
    """The embedded model as it is, or after IPO."""
    from dataclasses import replace

    from countdown_selfplay.cli.main import main as command
    from countdown_selfplay.countdown import CountdownDomain
    from countdown_selfplay.evaluation import evaluate_prover
    from countdown_selfplay.evaluation.model import load_model

    folder.mkdir(parents=True, exist_ok=True)
    if arm == "ipo":
        words = ["ipo", "--recipe", "tiny/ipo", "--output_dir", str(folder / "model"), "--seed", str(seed)]
        if command([*words, "--number_high", str(COMMON["number_high"]), "--report_to", "none"]) != 0:
            raise SystemExit("The IPO run failed; its last line says why.")
    domain = CountdownDomain.tiny()
    domain = replace(domain, spec=replace(domain.spec, number_high=COMMON["number_high"]))
    model = load_model(str(folder / "model") if arm == "ipo" else "tiny", "cpu")
    found = evaluate_prover(*model, domain.held_out(problems), domain, n=ANSWERS, ks=KS, max_new_tokens=16, seed=seed)
    return found, {"prover_samples": 0, "prover_tokens": 0}


def tables(root: Path, arms: list[str], seeds: list[int]) -> str:
    """Markdown: pass@k and differences to RLOO and to UCB, what each cost, and how candidates were filtered."""
    from countdown_selfplay.evaluation import write_report
    from countdown_selfplay.evaluation.compare.arms import aligned_arms, load_arms
    from countdown_selfplay.evaluation.compare.comparison import compare_arms
    from countdown_selfplay.evaluation.compare.comparison_tables import markdown, rows_of
    from countdown_selfplay.evaluation.report import load_runs
    from countdown_selfplay.evaluation.report.symbolic import filtering

    paths = {arm: [root / arm / f"seed-{seed}" for seed in seeds] for arm in arms}
    words = [f"{arm}={','.join(str(path / 'evaluation.json') for path in found)}" for arm, found in paths.items()]
    loaded = {arm.name: arm for arm in aligned_arms(load_arms(words))}
    lines, out = [], {}
    for control in [name for name in ("rloo", "ucb") if name in loaded and len(loaded) > 1]:
        found = compare_arms([loaded[control], *(arm for name, arm in loaded.items() if name != control)], KS)
        lines += [f"### Against {control}", "", markdown(rows_of(found), found.notes()), ""]
        out[control] = found.to_dict()
    lines += ["### Answers sampled in training", "", "| arm | thousand answers |", "|---|---|"]
    for arm, folders in paths.items():
        cost = [json.loads((path / "evaluation.json").read_text())["cost"]["prover_samples"] for path in folders]
        lines.append(f"| {arm} | {sum(cost) / len(cost) / 1000:.1f} |")
    trained = [path for arm in arms if arm not in WARM for path in paths[arm]]
    if trained:
        write_report(trained, root / "report.html")
    symbolic = [path for arm in arms if arm not in (*WARM, "rloo", "rloo_matched") for path in paths[arm][:1]]
    cascade = filtering(load_runs(symbolic)) if symbolic else None
    if cascade:
        names = [path.parent.name for path in symbolic]
        lines += [
            "",
            f"### Filters, seed {seeds[0]}",
            "",
            f"| | {' | '.join(names)} |",
            "|---" * (len(names) + 1) + "|",
        ]
        lines += [f"| {row[0]['text']} | {' | '.join(cell or '' for cell in row[1:])} |" for row in cascade.rows]
    (root / "study.json").write_text(json.dumps(out, indent=1) + "\n")
    return "\n".join(lines) + "\n"


def main() -> None:
    names = [*WARM, *ARMS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, help="Default: runs/symbolic, or runs/symbolic-quick.")
    parser.add_argument("--arms", nargs="+", choices=names)
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--rounds", type=int, help="Rounds of a run (100, as in the paper; quick: 20).")
    parser.add_argument("--problems", type=int, help="Held-out problems (1,024; quick: 128).")
    parser.add_argument("--workers", type=int, default=2, help="Runs side by side, one core each.")
    parser.add_argument("--quick", action="store_true", help="Few arms, one seed, short runs: does everything work?")
    options = parser.parse_args()
    arms = options.arms or list(QUICK if options.quick else names)
    seeds = options.seeds or ([0] if options.quick else [0, 1, 2, 3, 4])
    rounds = options.rounds or (20 if options.quick else 100)
    problems = options.problems or (128 if options.quick else 1024)
    root = options.folder or Path("runs/symbolic-quick" if options.quick else "runs/symbolic")
    if "rloo" not in arms and any(arm not in (*WARM, "rloo_matched", "ucb", "ours") for arm in arms):
        parser.error("The predictors are first trained on the RLOO run; add rloo to --arms.")
    start = time.perf_counter()
    with multiprocessing.get_context("spawn").Pool(options.workers, maxtasksperchild=10) as pool:
        for batch in (["rloo"], [arm for arm in arms if arm != "rloo"]):  # the others read its labels
            tasks = [(arm, seed, str(root), rounds, problems) for seed in seeds for arm in batch if arm in arms]
            for _ in pool.imap_unordered(run, tasks):
                pass
    text = tables(root, arms, seeds)
    (root / "study.md").write_text(text)
    print(f"\n{text}\n{time.perf_counter() - start:.0f} s. Also in {root}: study.md, study.json and report.html.")


if __name__ == "__main__":
    sys.exit(main())
