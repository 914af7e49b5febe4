"""The findings of seed 000 on the embedded model: a pool of tiered conjecturers and provers, and its controls.

    python examples/pool_expert_iteration.py                 # 5 seeds, two processes
    python examples/pool_expert_iteration.py --quick         # 1 seed, a few rounds: does everything run?
    python examples/pool_expert_iteration.py --warm_start    # only what `countdown-selfplay pool` can start from
    python examples/pool_expert_iteration.py --arms pool single --seeds 1 2

Every arm starts from warm-started models: provers that sometimes solve four numbers, two of them from disjoint
problems, and a conjecturer that knows the form. The pool and its control play 100 rounds, the findings' arms 30. All
are scored on the same held-out problems with equally many answers: what a pool of two provers solves, against one
prover that had, and has, as many samples as both. Runs are resumable: start the command again and it goes on where it
stopped. Written to --folder: a run folder per arm and seed; `study.md`; `report.html` of the pool and its control,
with the paper's figure 1 and table 2.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing.pool
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from countdown_selfplay.cli.main import as_program
from countdown_selfplay.evaluation.compare.study import FINISHED, compared, finish, finished, play_all, run_folder

ROUNDS, SHORT = 100, 30
HELD_OUT, ANSWERS = 256, 32  # answers to a problem, of all provers together
START = Path("runs/pool-start")
FOR_A_POOL, FOR_ARMS = ("prover_a", "conjecturer"), ("prover_b", "prover_both")

TIERS = {"start": [3, 4], "low": 0.2, "high": 0.7, "floor": 2, "ceiling": 4, "min_valid": 6}
APART = [{"model": "prover_a", "temperature": 0.8}, {"model": "prover_b", "temperature": 1.2}]
ARMS: dict[str, dict[str, Any]] = {
    "start": {},  # the warm start, not trained
    "pool": {},
    # One prover with the samples of both: twice the answers to each problem.
    "single": {"roles": {"prover": {"players": 1, "num_generations": 8, "micro_batches": 16}}},
    "identical": {},  # the pool as long as the arms below
    "per_prover_rate": {"solve_rate_over": "provers"},
    "solver_as_conjecturer": {"roles": {"conjecturer": {"model": "prover_a"}}},
    "worked_example": {"conjecturer_phrasing": "shown"},
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


def warm_start(root: Path, names: Sequence[str], quick: bool) -> None:
    """Make those of the models that are missing, two at a time: prover_a and prover_b from disjoint problems of two to
    four numbers, prover_both from prover_a's under two phrasings, and the conjecturer."""
    from countdown_selfplay.countdown import generate_problems
    from countdown_selfplay.warm_starts.demonstrations import generated_rows

    missing = [name for name in names if not (root / name / "config.json").exists()]
    if not missing:
        return
    count = 256 if quick else 6144
    domain = domain_of("compact", "compact")
    root.mkdir(parents=True, exist_ok=True)
    # There are 212 training problems of two numbers and 4,101 of three: each prover gets half of them.
    keys = [domain.key(problem) for problem in generate_problems(2 * count, domain.spec, seed=0)]
    a = generated_rows(count, "prover", domain, 0, exclude=keys[1::2], per_problem=6)
    taken = {*keys[::2], *(domain.key(domain.problem(row)) for row in a)}
    rows = {
        "prover_a": lambda: a,
        "prover_b": lambda: generated_rows(count, "prover", domain, 1, exclude=taken, per_problem=6),
        "prover_both": lambda: a[1::2] + [row | {"prompt": turned(domain.problem(row))} for row in a[::2]],
        "conjecturer": lambda: generated_rows(256 if quick else 2048, "conjecturer", domain, 0),
    }
    jobs = []
    for name in missing:
        (root / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[name]()))
        role = "conjecturer" if name == "conjecturer" else "prover"
        options = ["--role", role, "--dataset_name", str(root / f"{name}.jsonl"), "--output_dir", str(root / name)]
        jobs.append([*options, "--operands", "2", "3", "4", "--number_high", "12", "--eval_problems", "0"])
    with multiprocessing.pool.ThreadPool(2) as pool:
        pool.map(_fine_tune, jobs, chunksize=1)


def _fine_tune(options: list[str]) -> None:
    command = [sys.executable, "-m", "countdown_selfplay.cli.main", "sft", "--recipe", "tiny/sft", *options]
    done = subprocess.run([*command, "--disable_tqdm", "true"], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr[-2000:]}")


def turned(problem: Any) -> str:
    """Another phrasing of the compact prompt, `22 = 3 5 7 :` for `3 5 7 = 22 :`."""
    return f"{problem.target} = {' '.join(map(str, problem.numbers))} :"


def shown(operands: int, spec: Any, **asked: Any) -> str:
    """The conjecturer's compact prompt behind a worked example of its size: `2 3 4 = 24 propose 3 :`."""
    from countdown_selfplay.countdown.prompts import json_example, propose_compact

    example = json_example(operands)
    numbers = " ".join(map(str, example.numbers))
    return f"{numbers} = {example.target} {propose_compact(operands, spec, **asked)}"


def domain_of(phrasing: str, of_conjecturer: str) -> Any:
    """The recipe's Countdown, with these prompts for provers and conjecturers."""
    from countdown_selfplay.countdown import PROVER_PROMPTS, CountdownDomain, ProblemSpec
    from countdown_selfplay.countdown.prompts import CONJECTURER_PROMPTS, EXAMPLES, json_example
    from countdown_selfplay.countdown.proposals import PROPOSAL_PARSERS

    PROVER_PROMPTS["turned"], CONJECTURER_PROMPTS["shown"] = turned, shown
    PROPOSAL_PARSERS["shown"] = PROPOSAL_PARSERS["compact"]
    EXAMPLES["shown"] = lambda spec: map(json_example, spec.operands)
    spec = ProblemSpec((2, 3, 4), number_low=1, number_high=12, target_low=1, target_high=99)
    prompts = {"prover_prompt": phrasing, "conjecturer_prompt": of_conjecturer}
    return replace(CountdownDomain.tiny(), spec=spec, admit_unsolvable=True, **prompts)


# -- a run -----------------------------------------------------------------------------------------------------------


def run(task: tuple[str, int, str, str, int, int]) -> None:
    """Train one arm with one seed for so many rounds and score it on so many problems, or finish what an earlier call
    began."""
    arm, seed, root, start, rounds, problems = task
    folder = run_folder(root, arm, seed)
    settings = {"rounds": rounds}
    if finished(folder, settings):
        return
    import transformers
    from datasets import Dataset

    from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
    from countdown_selfplay.data.run_files import step_of
    from countdown_selfplay.evaluation.pooled import pooled
    from countdown_selfplay.training.checkpoints import newest
    from countdown_selfplay.training.evaluation import evaluate_provers

    changes = dict(ARMS[arm])
    domain = domain_of(changes.pop("phrasing", "compact"), changes.pop("conjecturer_phrasing", "compact"))
    args = JointSelfPlayConfig.from_recipe(
        "tiny/pool",
        output_dir=str(folder),
        seed=seed,
        max_steps=max(rounds, 1),
        save_steps=max(rounds // 2, 1),
        save_total_limit=1,
        export_every=0,
        report_to="none",
        disable_tqdm=True,
        guard=False,  # a control must not be rolled back
        **{**changes, "roles": _roles(changes.get("roles", {}), Path(start))},
    )
    held_out = domain.held_out(problems)
    rows = [{"nums": list(p.numbers), "target": p.target} for p in held_out]
    trainer = JointConjecturerProverTrainer(
        str(Path(start) / "prover_a"), args=args, eval_dataset=Dataset.from_list(rows), domain=domain
    )
    trainer.remove_callback(transformers.PrinterCallback)
    earlier, began = newest(folder, 1), time.process_time()
    if rounds:
        trainer.train(resume_from_checkpoint=earlier is not None)
    trained = (time.process_time() - began) / max(rounds - (step_of(earlier) if earlier else 0), 1)
    each = evaluate_provers(trainer, held_out, ANSWERS // len(args.players_of("prover")), (1, 8))
    for i, one in enumerate(each.values()):
        finish(folder, {"after": {"prover": one.to_dict()}}, f"prover_{i}.json")
    found = pooled([*each.values()], (1, 8, ANSWERS))
    after = {"prover": found.to_dict()}
    finish(folder, {"before": {}, "after": after, "samples": trainer.frame.samples, "settings": settings})
    at = found.pass_at
    print(f"{arm:>22} seed {seed}: pass@1 {at[1].value:.3f}  pass@8 {at[8].value:.3f}  "
          f"({trained:.2f} CPU s a round, {time.process_time() - began:.0f} in all)", flush=True)  # fmt: skip


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
    lines = [
        "### Training",
        "",
        "| arm | valid, rounds 1-5 -> last 5 | pass rate | pass rate of tier 1 | frontier, rounds 1-5 | copies, same "
        "| operands at the end | moves a tier | distinct rates a round |",
        "|---" * 9 + "|",
    ]
    lines += [_row(root, arm, seeds) for arm in arms if arm != "start"]
    for control, others in (
        ("single", [arm for arm in arms if arm in ("start", *LONG)]),
        ("identical", [arm for arm in arms if arm not in LONG]),
    ):
        if control in others and len(others) > 1:
            lines += _held_out(root, control, others, seeds)
    return "\n".join(lines) + "\n"


def _held_out(root: Path, control: str, arms: Sequence[str], seeds: Sequence[int]) -> list[str]:
    """What arms of one length solve on held-out problems, all provers together and each of them, against `control`."""
    from countdown_selfplay.evaluation.compare.comparison import markdown, rows_of

    pools = {arm: [run_folder(root, arm, seed) / FINISHED for seed in seeds] for arm in arms}
    provers = {control: pools[control]} if control == "single" else {}
    provers |= {
        f"{arm}, prover {i}": [path.with_name(f"prover_{i}.json") for path in paths]
        for arm, paths in pools.items()
        for i in range(2)
        if arm != "single"
    }
    lines = []
    for title, results, ks, baseline in (
        (f"all provers' answers put together ({ANSWERS} a problem)", pools, (1, 8, ANSWERS), control),
        ("each prover", provers, (1, 8), next(iter(provers))),
    ):
        found = compared(results, ks, baseline)
        lines += ["", f"### Held-out problems, {title}", "", markdown(rows_of(found), found.notes())]
    return lines


def _row(root: Path, arm: str, seeds: Sequence[int]) -> str:
    from countdown_selfplay.evaluation.report.load import load_run
    from countdown_selfplay.evaluation.report.pool import ends

    runs = [load_run(run_folder(root, arm, seed)) for seed in seeds]

    def mean(values: Sequence[float | None]) -> str:
        known = [value for value in values if value is not None]
        return f"{sum(known) / len(known):.2f}" if known else "-"

    cells = []
    for metric in ("valid_conjecture_rate", "mean_prover_pass_rate", "prover_pass_rate_tier_1"):
        early, late = zip(*(ends(run, metric) for run in runs), strict=True)
        cells.append(f"{mean(early)} -> {mean(late)}")
    cells += [
        mean([ends(run, metric)[0] for run in runs]) for metric in ("round/frontier_share", "copied_example_rate")
    ]
    counts = [[value for _, value in run.series(f"tier_{k}_operand_count")] for run in runs for k in (0, 1)]
    cells.append(", ".join(mean([own[-1] for own in counts[k::2]]) for k in (0, 1)))
    cells.append(mean([sum(a != b for a, b in pairwise(own)) for own in counts]))
    bins = [sum(count > 0 for count in found) for run in runs for found in run.histograms.values()]
    cells.append(mean(bins))
    return f"| {arm} | {' | '.join(cells)} |"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, help="Default: runs/pool-study, with --quick runs/pool-quick.")
    parser.add_argument("--seeds", type=int, nargs="+", help="Default: 1 to 5; 1 with --quick.")
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--rounds", type=int, help=f"Of every arm ({ROUNDS} and {SHORT}; with --quick 4).")
    parser.add_argument("--workers", type=int, default=2, help="Runs side by side, one core each.")
    parser.add_argument("--quick", action="store_true", help="One seed and a few rounds of every arm.")
    parser.add_argument("--warm_start", action="store_true", help=f"Make models in {START} and stop.")
    options = parser.parse_args(argv)
    began = time.perf_counter()
    root = options.folder or Path("runs/pool-quick" if options.quick else "runs/pool-study")
    start = root / "start" if options.quick else START
    warm_start(start, FOR_A_POOL if options.warm_start else (*FOR_A_POOL, *FOR_ARMS), options.quick)
    if options.warm_start:
        own = f"--model_name_or_path {start}/prover_a --conjecturer_model_name_or_path {start}/conjecturer"
        print(f"{time.perf_counter() - began:.0f} s. Now: countdown-selfplay pool --recipe tiny/pool {own}")
        return 0
    seeds = options.seeds or ([1] if options.quick else [1, 2, 3, 4, 5])
    rounds = {arm: options.rounds or (4 if options.quick else ROUNDS if arm in LONG else SHORT) for arm in ARMS}
    rounds["start"] = 0
    problems = HELD_OUT // 8 if options.quick else HELD_OUT
    order = sorted(options.arms, key=lambda arm: arm not in LONG)  # the longest first
    play_all(
        run,
        [(arm, seed, str(root), str(start), rounds[arm], problems) for arm in order for seed in seeds],
        options.workers,
    )
    text = tables(root, options.arms, seeds)
    (root / "study.md").write_text(text)
    from countdown_selfplay.evaluation import write_report

    main_arms = [arm for arm in LONG if arm in options.arms] or options.arms[:1]
    write_report([run_folder(root, arm, seed) for arm in main_arms for seed in seeds], root / "report.html")
    print(f"\n{text}\n{time.perf_counter() - began:.0f} s. Also in {root}: study.md and report.html.")
    return 0


if __name__ == "__main__":
    as_program(main)
