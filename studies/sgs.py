"""Self-guided self-play and its ablations and baselines at equal generations, on a set of hard targets (SGS).

    python studies/sgs.py --quick              # two arms, one seed, a small budget: under 10 minutes on two cores
    python studies/sgs.py                      # the arms of the paper, 80,000 generations a run: hours
    python studies/sgs.py --arms sgs no_guide --seeds 0 1 2
    python studies/sgs.py --prepare            # only what the recipes tiny/sgs* start from
    python studies/sgs.py --sweep reinforce_half --seeds 0 1   # the solver's learning rate, as in appendix C.2
    python studies/sgs.py --sweep sgs_32 sgs_32_reinforce_half sgs_32_expert_iteration parallel_sampling \
        --attempts 128 --most 0 --rates 1e-5 3e-5 1e-4 3e-4 1e-3 --seeds 0 1 2   # steps of 32 trained sequences (C.1)

What all runs start from is made first, once: a warm-started solver and conjecturer, and targets with four numbers
that the solver solves at most 2 times in 8 (appendix D), or --most in --attempts. Then one job a run; each ends at the
first round with --generations texts. Start the command again and it goes on where it stopped. Written to --folder: a
run folder per arm and seed, `study.md`, `study.json` and `report.html`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from many_runs import finish, finished, play_all, run_folder

from countdown_selfplay.cli.main import as_program
from countdown_selfplay.config.recipes import recipe_settings
from countdown_selfplay.warm_starts.hard import ATTEMPTS, MOST
from countdown_selfplay.warm_starts.starts import SGS, SGS_ROLES, SGS_TARGETS, sgs_start

ARMS = {  # arm -> recipe
    "sgs": "tiny/sgs",
    "reinforce_half": "tiny/sgs_reinforce_half",
    "no_guide": "tiny/sgs_no_guide",
    "frozen": "tiny/sgs_frozen",
    "unconditioned": "tiny/sgs_unconditioned",
    "cispo": "tiny/sgs_cispo",
    "cispo_alone": "tiny/sgs_cispo_alone",
    "expert_iteration": "tiny/sgs_expert_iteration",
    "parallel_sampling": "tiny/sgs_parallel_sampling",
    "stp": "tiny/sgs_stp",
    "judge": "tiny/sgs_judge",
}
OF_32 = {f"sgs_32{arm}": f"tiny/sgs_32{arm}" for arm in ("", "_distractors", "_reinforce_half", "_expert_iteration")}
"""In steps of 32 trained sequences; a rate of a sweep is every role's."""
RECIPES = ARMS | OF_32
CORE, SEEDS, FEWER = ("sgs", "no_guide", "frozen", "unconditioned", "cispo", "reinforce_half"), 5, 3
GRID = (1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4)
FINISHED = "finished"
QUICK = {"arms": ["sgs", "reinforce_half"], "seeds": [0], "generations": 8000, "targets": 128}


def rates(arm: str, rate: float | None) -> dict[str, float]:
    """The learning rates of the arm's recipe, with that of a sweep. A finished run at others is another study's."""

    written = recipe_settings(RECIPES[arm])
    found = {name: value for name, value in written.items() if name.endswith("learning_rate")}
    return found if rate is None else found | {swept(arm): rate}


def swept(arm: str) -> str:
    """The setting that a sweep varies."""
    return "learning_rate" if arm in OF_32 else "prover_learning_rate"


def run(task: tuple[str, int, str, int, float | None]) -> None:
    """One arm with one seed, from its start or its last checkpoint to the budget. The last of a task is a learning
    rate of the solver instead of the recipe's, or None."""
    arm, seed, root, generations, rate = task
    folder, settings = run_folder(root, arm, seed), {"generations": generations, **rates(arm, rate)}
    if finished(folder, settings, FINISHED):
        return
    import transformers

    from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
    from countdown_selfplay.data.files import load_problem_rows
    from countdown_selfplay.training.checkpoints import newest

    changes: dict[str, Any] = dict(output_dir=str(folder), seed=seed, max_steps=10**6)
    changes |= dict(report_to="none", disable_tqdm=True, use_cpu=True)
    if rate is not None:
        changes[swept(arm)] = rate
    args = JointSelfPlayConfig.from_recipe(RECIPES[arm], **changes)

    class Budget(transformers.TrainerCallback):
        """Ends the run at the end of the round that reaches the budget."""

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            control.should_training_stop |= trainer.counts.generations >= generations

    trainer = JointConjecturerProverTrainer(
        str(SGS / "prover"),  # the conjecturer and the guide have models of their own in the recipes
        args=args,
        train_dataset=load_problem_rows(str(SGS / "targets.jsonl")),
        callbacks=[Budget()],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train(resume_from_checkpoint=newest(folder, 1) is not None)
    finish(folder, {"settings": settings}, FINISHED)
    proposer = trainer.game.proposer
    print(f"{arm:>18} seed {seed}: {len(proposer.solved)} of {len(proposer.known)} targets solved", flush=True)


def sweep(folders: dict[float, Path], arm: str, seeds: list[int]) -> str:
    """The learning rate with the highest cumulative solve rate, which must not lie at the grid's edge. folders: of the
    arm's finished runs with each rate."""
    import numpy as np

    from countdown_selfplay.lab.report import load_run

    solved = {
        rate: float(np.mean([load_run(run_folder(folder, arm, s)).series("targets/solve_rate")[-1][1] for s in seeds]))
        for rate, folder in folders.items()
    }
    best = max(solved, key=lambda rate: solved[rate])
    lines = [f"{rate:g}: {share:.3f} of the targets solved" for rate, share in solved.items()]
    edge = best in (min(solved), max(solved)) and len(solved) > 1
    lines.append(
        f"{arm}: {best:g}" + (", which lies at the edge of the grid: widen it with --rates." if edge else ".")
    )
    return "\n".join(lines)


def sweep_arms(
    root: Path, arms: list[str], seeds: list[int], generations: int, workers: int, grid: list[float]
) -> str:
    """Plays arms with each rate (sampling has none), seed after seed, and writes `root`/sweep.json; what `sweep` says
    of each arm."""
    from sgs_study import SAMPLING, swept_arms

    folders = {
        arm: {rate: root / f"sweep-{arm}" / f"learning-rate-{rate:g}" for rate in ([0.0] if arm == SAMPLING else grid)}
        for arm in arms
    }
    tasks = [
        (arm, seed, str(folder), generations, rate)
        for seed in seeds
        for arm in arms
        for rate, folder in folders[arm].items()
    ]
    play_all(run, tasks, workers)
    found = {
        arm if arm == SAMPLING else f"{arm} {rate:g}": [run_folder(folder, arm, seed) for seed in seeds]
        for arm in arms
        for rate, folder in folders[arm].items()
    }
    (root / "sweep.json").write_text(json.dumps({"generations": generations, **swept_arms(found)}) + "\n")
    return "\n".join(sweep(folders[arm], arm, seeds) for arm in arms)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="Default: runs/tiny-sgs/study, with --quick runs/tiny-sgs/quick.")
    parser.add_argument("--arms", nargs="+", choices=list(RECIPES))
    parser.add_argument(
        "--seeds", type=int, nargs="+", help="Default: 5 for the arms of the paper's figures 6 and 7, else 3."
    )
    parser.add_argument("--generations", type=int, help="Texts of all roles a run (80,000).")
    parser.add_argument("--targets", type=int, help="Hard problems in the set, if it is made now (320).")
    parser.add_argument(
        "--attempts", type=int, default=ATTEMPTS, help=f"Of the solver at a problem, which choose it ({ATTEMPTS})."
    )
    parser.add_argument("--most", type=int, default=MOST, help=f"Right ones that a chosen problem may have ({MOST}).")
    parser.add_argument("--workers", type=int, default=2, help="Runs side by side, one core each.")
    parser.add_argument(
        "--sweep",
        nargs="+",
        choices=list(RECIPES),
        help="Play these arms with each learning rate of a grid (parallel_sampling with none) and write sweep.json.",
    )
    parser.add_argument(
        "--rates", type=float, nargs="+", default=GRID, help="Of --sweep; those played before are read."
    )
    parser.add_argument("--prepare", action="store_true", help="Make what the recipes start from, and end.")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK}")
    options = parser.parse_args(argv)
    given = QUICK if options.quick else {}
    for name, usual in (("arms", list(ARMS)), ("seeds", None), ("generations", 80_000), ("targets", SGS_TARGETS)):
        if getattr(options, name) is None:
            setattr(options, name, given.get(name, usual))
    own = {"judge": "guide", "stp": "stp_conjecturer", "sgs_32": "conjecturer_steps"}  # that one arm alone starts from
    played = options.arms if options.sweep is None else options.sweep
    more = [role for arm, role in own.items() if options.prepare or arm in played]
    if options.attempts < ATTEMPTS or not 0 <= options.most < options.attempts:
        said = f"--attempts {options.attempts} and --most {options.most}"
        parser.error(f"{said}: at least {ATTEMPTS} attempts, and fewer right ones.")
    sgs_start(SGS, [*SGS_ROLES, *more], options.targets, options.quick, options.attempts, options.most)
    if options.prepare:
        return 0
    root = options.folder or SGS / ("quick" if options.quick else "study")
    seeds = {arm: options.seeds or list(range(SEEDS if arm in CORE else FEWER)) for arm in options.arms}
    if options.sweep is not None:
        seeds_of_sweep, root = options.seeds or [0], options.folder or SGS
        how = (options.generations, options.workers, options.rates)
        print(sweep_arms(root, options.sweep, seeds_of_sweep, *how))
        return 0
    tasks = [(arm, seed, str(root), options.generations, None) for arm in options.arms for seed in seeds[arm]]
    play_all(run, tasks, options.workers)
    from sgs_study import study

    from countdown_selfplay.lab.report import write_report

    text = study(root, options.arms, seeds, options.generations)
    (root / "study.md").write_text(text)
    write_report([run_folder(root, arm, seed) for arm, seed, *_ in tasks], root / "report.html")
    print(f"\n{text}\nAlso in {root}: study.json and report.html.")
    return 0


if __name__ == "__main__":
    as_program(main)
