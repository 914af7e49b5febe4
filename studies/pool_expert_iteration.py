"""The findings of Multimodal LLM Self-Play on the embedded model: a pool of tiered conjecturers and provers, and its
controls.

    python studies/pool_expert_iteration.py                 # 5 seeds, two processes
    python studies/pool_expert_iteration.py --quick         # 1 seed, a few rounds: does everything run?
    python studies/pool_expert_iteration.py --warm_start    # only what `countdown-selfplay pool` can start from
    python studies/pool_expert_iteration.py --arms pool single --seeds 1 2

Every arm starts from warm-started models: provers that sometimes solve four numbers, two of them from disjoint
problems, and a conjecturer that knows the form, or that hardly does. The pool, its control and the pool that begins
with few valid texts play 100 rounds, the findings' arms 30. All are scored on the same held-out problems with equally
many answers at temperature 1, whatever they were trained with: what a pool of two provers solves, against one prover
that had, and has, as many samples as both. `fixed` is that prover on fixed problems, with its answers and its updates.
A seed is that of training and of those answers. Runs are resumable: start the command again and it goes on where it
stopped. Written to --folder: a run folder per arm and seed; `study.md`; `counts.json`; `report.html` of the arms of
100 rounds, with the paper's figure 1 and table 2.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from many_runs import FINISHED, compared, finish, finished, play_all, run_folder

from countdown_selfplay.cli.main import as_program
from countdown_selfplay.warm_starts.starts import (
    POOL,
    POOL_PROBLEMS,
    POOL_PROPOSALS,
    half_rows,
    made,
    pool_job,
    pool_start,
)

ROUNDS, SHORT = 100, 30
RATE = 1e-4  # the recipe's
HELD_OUT, ANSWERS = 256, 32  # answers to a problem, of all provers together
FOR_ARMS = ("prover_b", "prover_both", "conjecturer_raw", "conjecturer_shown")
FEW = 96  # demonstrations after which a prover's weights write a problem in three of ten texts, as the paper's begin

TIERS = {"start": [3, 4], "low": 0.2, "high": 0.7, "floor": 2, "ceiling": 4, "min_valid": 6}
APART = [{"model": "prover_a", "temperature": 0.8}, {"model": "prover_b", "temperature": 1.2}]
SINGLE: dict[str, Any] = {"roles": {"prover": {"players": 1, "num_generations": 8}}}
ARMS: dict[str, dict[str, Any]] = {
    "start": {},  # the warm start, not trained
    "pool": {},
    # One prover with the samples of both: twice the answers to each problem.
    "single": SINGLE,
    # Expert iteration of that prover on fixed problems: no conjecturer, as many answers a round as `single` had.
    "fixed": {
        "roles": {**SINGLE["roles"], "conjecturer": {"players": 0}},
        "proposer": None,
        "proposer_kwargs": None,
        "fill": "anchor",
        "anchor_fraction": 1.0,
    },
    # A conjecturer that hardly knows the form: does expert iteration teach it?
    "raw_conjecturer": {"roles": {"conjecturer": {"model": "conjecturer_raw"}}},
    "raw_hysteresis": {
        "roles": {"conjecturer": {"model": "conjecturer_raw"}},
        "proposer_kwargs": {**TIERS, "hysteresis": True},
    },
    "identical": {},  # the pool as long as the arms below
    "per_prover_rate": {"solve_rate_over": "provers"},
    "solver_as_conjecturer": {"roles": {"conjecturer": {"model": "prover_a"}}},
    "worked_example": {
        "conjecturer_phrasing": "shown",
        "roles": {"conjecturer": {"model": "conjecturer_shown"}},
    },
    "other_phrasing": {"phrasing": "turned"},
    "several_phrasings": {"phrasing": "turned", "roles": {"prover": {"model": "prover_both"}}},
    "window": {"proposer_kwargs": {**TIERS, "window": 3}},
    "hysteresis": {"proposer_kwargs": {**TIERS, "hysteresis": True}},
    "diverse": {"roles": {"prover": {"each": APART}}},
    "weighted": {  # examples count by their distance to the frontier's centre
        "conjecturer_reward": "frontier_distance",
        "conjecturer_reward_kwargs": {"low": 0.1, "high": 0.7},
        "roles": {"conjecturer": {"objective_kwargs": {"rounds": 1, "tau": 0, "weighted": True}}},
    },
}
LONG = ("pool", "single", "fixed", "raw_conjecturer", "raw_hysteresis")
MATCHED = "fixed"  # to the answers of `single`


# -- the models that the pools start from ----------------------------------------------------------------------------


def warm_start(root: Path, names: Sequence[str], quick: bool) -> None:
    """Make those of the models that are missing, two at a time: prover_a and prover_b from disjoint problems of two to
    four numbers; prover_both from prover_a's under two phrasings; conjecturer; conjecturer_shown with a worked example
    in its prompt; and conjecturer_raw, prover_a's weights after FEW demonstrations."""
    from countdown_selfplay.warm_starts.demonstrations import generated_rows
    from countdown_selfplay.warm_starts.starts import fine_tune

    count, proposals = (256, 256) if quick else (POOL_PROBLEMS, POOL_PROPOSALS)
    pool_start(root, count, proposals)
    missing = [name for name in names if not made(root / name)]
    if not missing:
        return
    domain = domain_of("compact", "compact")
    a, taken = half_rows(count, domain)
    rows = {
        "prover_b": lambda: generated_rows(count, "prover", domain, 1, exclude=taken, per_problem=6),
        "prover_both": lambda: a[1::2] + [row | {"prompt": turned(domain.problem(row))} for row in a[::2]],
        "conjecturer_raw": lambda: generated_rows(FEW, "conjecturer", domain, 0),
        "conjecturer_shown": lambda: generated_rows(proposals, "conjecturer", domain_of("compact", "shown"), 0),
    }
    raw = {"model_name_or_path": root / "prover_a", "learning_rate": 3e-4, "per_device_train_batch_size": 16}
    own = {"conjecturer_raw": raw}
    fine_tune([pool_job(root / name, rows[name](), **own.get(name, {})) for name in missing])


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
    from countdown_selfplay.countdown.prompts import CONJECTURER_PROMPTS, EXAMPLES, PROPOSAL_TEXTS, json_example
    from countdown_selfplay.countdown.proposals import PROPOSAL_PARSERS

    PROVER_PROMPTS["turned"], CONJECTURER_PROMPTS["shown"] = turned, shown
    PROPOSAL_PARSERS["shown"], PROPOSAL_TEXTS["shown"] = PROPOSAL_PARSERS["compact"], PROPOSAL_TEXTS["compact"]
    EXAMPLES["shown"] = lambda spec: map(json_example, spec.operands)
    spec = ProblemSpec((2, 3, 4), number_low=1, number_high=12, target_low=1, target_high=99)
    prompts = {"prover_prompt": phrasing, "conjecturer_prompt": of_conjecturer}
    return replace(CountdownDomain.tiny(), spec=spec, admit_unsolvable=True, **prompts)


# -- a run -----------------------------------------------------------------------------------------------------------


def run(task: tuple[str, int, str, str, int, int, float]) -> None:
    """Train one arm with one seed for so many rounds at a learning rate and score it on so many problems, or finish
    what an earlier call began."""
    arm, seed, root, start, rounds, problems, rate = task
    folder = run_folder(root, arm, seed)
    settings = {"rounds": rounds, "rate": rate}
    if finished(folder, settings):
        return
    import transformers
    from datasets import Dataset

    from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
    from countdown_selfplay.data.run_files import step_of
    from countdown_selfplay.training.checkpoints import newest

    changes = dict(ARMS[arm])
    if arm == MATCHED:
        changes["problems_per_round"] = matched(run_folder(root, "single", seed) / FINISHED, rounds)
    domain = domain_of(changes.pop("phrasing", "compact"), changes.pop("conjecturer_phrasing", "compact"))
    args = JointSelfPlayConfig.from_recipe(
        "tiny/pool",
        output_dir=str(folder),
        seed=seed,
        learning_rate=rate,
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
    found = _scores(trainer, held_out, seed, domain)
    for name, one in found.items():
        if name != "pool":
            finish(folder, {"after": {"prover": one.to_dict()}}, f"{name}.json")
    after = {"prover": found["pool"].to_dict()}
    finish(folder, {"before": {}, "after": after, "samples": trainer.counts.samples, "settings": settings})
    at = found["pool"].pass_at
    print(f"{arm:>22} seed {seed}: pass@1 {at[1].value:.3f}  pass@8 {at[8].value:.3f}  "
          f"({trained:.2f} CPU s a round, {time.process_time() - began:.0f} in all)", flush=True)  # fmt: skip


def matched(single: Path, rounds: int) -> int:
    """Problems of a round, a multiple of 4 of them x 8 answers: as many answers as `single` had on the mean."""
    answers = json.loads(single.read_text())["samples"]["prover"]
    return 4 * max(1, round(answers / rounds / 32))


def _scores(trainer: Any, problems: Sequence[Any], seed: int, domain: Any) -> dict[str, Any]:
    """Evaluations at temperature 1, so that weights alone differ: `prover_0` and so on, `pool`; and of provers that
    were trained under another phrasing `compact`, the pool's with the usual prompt."""
    from countdown_selfplay.evaluation.roles import pooled

    names = trainer.args.players_of("prover")
    trainer.roles.update({name: replace(trainer.roles[name], temperature=1.0) for name in names})
    ks, found = (1, 8, ANSWERS), dict[str, Any]()
    for phrasing in dict.fromkeys((domain.prover_prompt, "compact")):
        trainer.domain = replace(domain, prover_prompt=phrasing)
        each = [*trainer.evaluator.provers(problems, ANSWERS // len(names), (1, 8), seed=seed).values()]
        if phrasing == domain.prover_prompt:
            found = {f"prover_{i}": one for i, one in enumerate(each)} | {"pool": pooled(each, ks)}
        else:
            found[phrasing] = pooled(each, ks)
    return found


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


COLUMNS = (
    *("arm", "rounds", "valid, rounds 1-5 -> last 5", "right answers", "pass rate of tier 1"),
    *("frontier, rounds 1-5", "copies, rounds 1-5 -> last 5", "operands at the end"),
    *(f"moves a tier in {SHORT} rounds", "in all", f"distinct rates a round, {SHORT} rounds"),
)
NOTES = f"""
Means over seeds with 95% t intervals. Right answers: the share of all provers' answers, which is the mean pass rate
over attempts in every arm; the pass rate of tier 1 is that of the arm, for `per_prover_rate` the binary one. Frontier:
the share of the played texts of conjecturers, 0 in a round without any. Copies of the worked example are not valid and
are not played. Moves and distinct rates are of the first {SHORT} rounds of each run.
"""
SCORED = """
All answers at temperature 1. Seeds of `start`, whose weights are the same, differ in the sampling of answers alone;
those of the other arms in training too. Arms under another phrasing answer the prompt that they were trained on, and
the usual one where it is said.
"""


def tables(root: Path, arms: Sequence[str], seeds: Sequence[int]) -> str:
    """Markdown: what the paper measures, early and late, and what the arms solve on held-out problems. Right answers
    by problem go to counts.json."""
    from countdown_selfplay.lab.compare import aligned_arms, load_arms, write_counts

    lines = ["### Training", "", f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    lines += [_row(root, arm, seeds) for arm in arms if arm not in ("start", MATCHED)] + [NOTES, SCORED.strip()]
    for control, others in (
        ("single", [arm for arm in arms if arm in ("start", *LONG)]),
        ("identical", [arm for arm in arms if arm not in LONG]),
    ):
        if control in others and len(others) > 1:
            lines += _held_out(root, control, others, seeds)
    folders = {arm: ",".join(str(run_folder(root, arm, seed)) for seed in seeds) for arm in arms}
    write_counts(root / "counts.json", aligned_arms(load_arms([f"{arm}={paths}" for arm, paths in folders.items()])))
    return "\n".join(lines) + "\n"


def _held_out(root: Path, control: str, arms: Sequence[str], seeds: Sequence[int]) -> list[str]:
    """What arms of one length solve on held-out problems, all provers together and each of them, against `control`."""
    from countdown_selfplay.lab.compare import markdown, rows_of

    def files(arm: str, name: str) -> list[Path]:
        return [run_folder(root, arm, seed) / name for seed in seeds]

    pools, provers = dict[str, list[Path]](), dict[str, list[Path]]()
    for arm in arms:
        pools[arm] = files(arm, FINISHED)
        if "phrasing" in ARMS[arm]:
            pools[f"{arm}, usual prompt"] = files(arm, "compact.json")
        alone = arm in ("single", "fixed")
        provers |= {arm if alone else f"{arm}, prover {i}": files(arm, f"prover_{i}.json") for i in range(2 - alone)}
    lines = []
    for title, results, ks, baseline in (
        (f"all provers' answers put together ({ANSWERS} a problem)", pools, (1, 8, ANSWERS), control),
        ("each prover", provers, (1, 8), control if control in provers else f"{control}, prover 0"),
    ):
        found = compared(results, ks, baseline)
        lines += ["", f"### Held-out problems, {title}", "", markdown(rows_of(found), found.notes())]
    return lines


def _row(root: Path, arm: str, seeds: Sequence[int]) -> str:
    from countdown_selfplay.evaluation.load import load_run
    from countdown_selfplay.lab.report.charts import over_seeds
    from countdown_selfplay.lab.report.tables import WINDOW, ends

    runs = [load_run(run_folder(root, arm, seed)) for seed in seeds]

    def mean(values: Sequence[float | None]) -> str:
        """Over seeds."""
        known = [value for value in values if value is not None]
        if len(known) < 2:
            return f"{known[0]:.2f}" if known else "-"
        found = over_seeds(known)
        return f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}]"

    def early_and_late(*metrics: str) -> str:
        found = [[ends(run, metric) for metric in metrics if run.series(metric)] for run in runs]
        early, late = ([_mean([pair[i] for pair in pairs]) for pairs in found] for i in (0, 1))
        return f"{mean(early)} -> {mean(late)}"

    rights = [f"{prover}/correct_rate" for prover in ("prover", "prover/0", "prover/1")]
    moves, moves_in_all, last = [], [], []
    for run in runs:
        counts = [[value for _, value in run.series(f"tier_{k}_operand_count")] for k in (0, 1)]
        last.append([own[-1] for own in counts])
        moved = [[a != b for a, b in pairwise(own)] for own in counts]
        moves.append(_mean([sum(own[: SHORT - 1]) for own in moved]))
        moves_in_all.append(_mean([sum(own) for own in moved]))
    frontier = [sum(v for step, v in run.series("round/frontier_share") if step <= WINDOW) for run in runs]
    bins = [[sum(count > 0 for count in own) for own in [*run.histograms.values()][:SHORT]] for run in runs]
    cells = [
        str(max(runs[0].steps)),
        early_and_late("valid_conjecture_rate"),
        early_and_late(*rights),
        early_and_late("prover_pass_rate_tier_1"),
        mean([total / min(WINDOW, max(run.steps)) for total, run in zip(frontier, runs, strict=True)]),
        early_and_late("copied_example_rate"),
        ", ".join(mean([own[k] for own in last]) for k in (0, 1)),
        mean(moves),
        mean(moves_in_all),
        mean([_mean(own) for own in bins]),
    ]
    return f"| {arm} | {' | '.join(cells)} |"


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, help="Default: runs/pool-study, with --quick runs/pool-quick.")
    parser.add_argument("--seeds", type=int, nargs="+", help="Default: 1 to 5; 1 with --quick.")
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS))
    parser.add_argument("--rounds", type=int, help=f"Of every arm ({ROUNDS} and {SHORT}; with --quick 4).")
    parser.add_argument("--rate", type=float, default=RATE, help=f"Learning rate of all players ({RATE:g}).")
    parser.add_argument("--workers", type=int, default=2, help="Runs side by side, one core each.")
    parser.add_argument("--quick", action="store_true", help="One seed and a few rounds of every arm.")
    parser.add_argument("--warm_start", action="store_true", help=f"Make models in {POOL} and stop.")
    options = parser.parse_args(argv)
    began = time.perf_counter()
    root = options.folder or Path("runs/pool-quick" if options.quick else "runs/pool-study")
    start = root / "start" if options.quick else POOL
    if MATCHED in options.arms and "single" not in options.arms:
        parser.error(f"{MATCHED} has as many answers as the run of single with its seed; add single to --arms.")
    wanted = [name for name in FOR_ARMS if name in str([ARMS[arm] for arm in options.arms])]
    warm_start(start, () if options.warm_start else wanted, options.quick)
    if options.warm_start:
        print(f"{time.perf_counter() - began:.0f} s. Now: countdown-selfplay pool")
        return 0
    seeds = options.seeds or ([1] if options.quick else [1, 2, 3, 4, 5])
    rounds = {arm: options.rounds or (4 if options.quick else ROUNDS if arm in LONG else SHORT) for arm in ARMS}
    rounds["start"] = 0
    problems = HELD_OUT // 8 if options.quick else HELD_OUT
    order = sorted(options.arms, key=lambda arm: arm not in LONG)  # the longest first
    for batch in ([arm for arm in order if arm != MATCHED], [arm for arm in order if arm == MATCHED]):
        tasks = [
            (arm, seed, str(root), str(start), rounds[arm], problems, options.rate) for arm in batch for seed in seeds
        ]
        play_all(run, tasks, options.workers)
    text = tables(root, options.arms, seeds)
    (root / "study.md").write_text(text)
    from countdown_selfplay.evaluation import write_report

    played = [arm for arm in options.arms if rounds[arm]]  # of `start` there is nothing to show
    shown_arms = [arm for arm in played if arm in LONG] or played[:1]
    if shown_arms:
        write_report([run_folder(root, arm, seed) for arm in shown_arms for seed in seeds], root / "report.html")
    written = "study.md and report.html" if shown_arms else "study.md"
    print(f"\n{text}\n{time.perf_counter() - began:.0f} s. Also in {root}: {written}.")
    return 0


if __name__ == "__main__":
    as_program(main)
