"""Every row of the table of Task Difficulty and Diversity at the size of the embedded model, and which of its findings
hold here.

    python studies/symbolic_proposers.py                 # 5 seeds, two processes
    python studies/symbolic_proposers.py --quick         # 1 seed, 20 rounds, the main rows: minutes
    python studies/symbolic_proposers.py --arms rloo ucb ours --seeds 0 1

An arm is a recipe of examples/recipes/tiny with a few changes. All start from the embedded model, play problems with
numbers up to 20 (it knows those up to 12) and are scored on the same 1,024 held-out problems, 16 answers each: 512
with numbers up to 12 and 512 others. The RLOO run of a seed gives the labels of that seed's predictors, for problems
that it did not train on; they cost 16,000 answers, which no arm is charged for and the table of costs names. The runs
of `rloo_matched`, `maxrl_matched` and `ours` go on until they have the answers of the UCB run of their seed, rollouts
included. `ucb_maxrl` is UCB with the solver's settings of `ours`, `even` its regimes in turn; `trained`, `frozen` and
`uniform` differ in nothing but how actions are chosen.

Runs are resumable: start the command again and it goes on where it stopped; what is finished is read, not repeated.
Written to --folder: a run folder per arm and seed, report.html of all runs, study.md and study.json. --tuning scores
on 512 problems of the training side instead, which the run does not play: what settings may be chosen by. --paper has
the KL and entropy of the paper's table 1, numbers up to 12, and a sixteenth of the candidates kept.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from many_runs import FINISHED, finish, finished, play_all, run_folder

from countdown_selfplay.cli.main import as_program

ANSWERS, KS = 16, (1, 4, 16)
HIGH, KNOWN = 20, 12  # greatest number of the problems, and of those that the embedded model can read
COMMON: dict[str, Any] = dict(
    number_high=HIGH,
    save_steps=50,
    save_total_limit=1,
    guard=False,
    guard_trips=None,
    use_cpu=True,
    report_to="none",
    disable_tqdm=True,
)
LEARNED = dict(
    features=13, candidates=64, refresh=1, keep=12, difficulty="predictor", relabel_every=10, relabel=48
)  # every round a refresh, so that the trained proposer has 100 updates
ROUND = 256  # answers of a round, of every arm
SOLVER = dict(prover_objective="maxrl", num_generations=16, beta=0.1, lr_scheduler_type="cosine")  # as ours
ARMS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    # name: recipe, changes of it, changes of its proposer_kwargs
    "rloo": ("tiny/rloo", {}, {}),
    "rloo_matched": ("tiny/rloo", {}, {}),
    "maxrl_matched": ("tiny/rloo", SOLVER, {}),
    "ucb": ("tiny/symbolic_ucb", {}, {}),
    "ucb_maxrl": ("tiny/symbolic_ucb", SOLVER, {}),
    "even": ("tiny/symbolic_ucb", {}, {"exploration": 1e6}),  # UCB's regimes in turn, whatever they earn
    "p_solver": ("tiny/symbolic_p_solver", {}, {}),
    "refresh": ("tiny/symbolic_refresh", {}, {}),
    "refresh_diversity": ("tiny/symbolic_refresh_diversity", {}, {}),
    "ours": ("tiny/symbolic_ours", {}, {}),
    "trained": ("tiny/symbolic_ucb", {"proposer": "factorized"}, LEARNED),
    "frozen": ("tiny/symbolic_ucb", {"proposer": "factorized"}, {**LEARNED, "learning_rate": 0.0}),
    "uniform": ("tiny/symbolic_ucb", {"proposer": "mutation"}, LEARNED),
}
WEIGHTED = dict(replay=dict(capacity=512, half_life=50, softness=0.2))
FEW = dict(WEIGHTED, candidates=96)
TEN = dict(WEIGHTED, candidates=256, refresh=10, keep=48, relabel_every=1)
FIRST_STUDY: dict[str, dict[str, Any]] = {
    "ucb": FEW, "ucb_maxrl": FEW, "p_solver": WEIGHTED, "refresh": WEIGHTED, "refresh_diversity": WEIGHTED,
    "trained": TEN, "frozen": TEN, "uniform": TEN,
}  # fmt: skip
"""proposer_kwargs with which the study of 2026-11-23 was played, where they differ: a buffer that weighs its problems,
96 candidates for UCB and 256 for the others, ten refreshes, so ten updates of the trained proposer."""
NARROW = dict(keep=16)  # of 256 candidates every ten rounds
NARROWLY = dict(keep=4)  # of 64 in every round
PAPER_STUDY: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("ucb", "ucb_maxrl", "even", "p_solver", "refresh", "refresh_diversity"), NARROW),
    **dict.fromkeys(("trained", "frozen", "uniform"), NARROWLY),
}  # fmt: skip
PAPER_SOLVER = dict(number_high=KNOWN, beta=0.001, entropy_coef=0.001)
STUDIES: dict[str, tuple[dict[str, Any], dict[str, dict[str, Any]]]] = {
    "": ({}, {}),
    "first": ({}, FIRST_STUDY),
    "paper": (PAPER_SOLVER, PAPER_STUDY),
}
"""Changes of the run, for all arms, and of proposer_kwargs, by arm. `paper`: the KL and entropy of its table 1; ours
are problems that the model can read, and a sixteenth of the candidates kept, so that there is a choice."""
FIRST = ["rloo", "ucb"]
WARM = ("sft", "ipo")  # the embedded model, which is warm-started; and after IPO on its own answers
MATCHED = ("rloo_matched", "maxrl_matched", "ours")  # to the answers of UCB
TAUGHT = ("p_solver", "refresh", "refresh_diversity", "trained", "frozen", "uniform")  # by labels of the RLOO run
QUICK = ("sft", "rloo", "ucb", "refresh", "refresh_diversity", "ours")
CONTROLS = {
    "rloo": (), "rloo_matched": (), "ucb": (), "maxrl_matched": ("ours",), "ucb_maxrl": ("ours",),
    "frozen": ("trained",), "uniform": ("trained",), "even": ("ucb",),
}  # fmt: skip
"""What others are compared with: all of them, or those that are named."""


def run(task: tuple[str, int, str, int, int, bool, str]) -> None:
    """Train and score one arm with one seed, or finish what an earlier call began."""
    arm, seed, root, rounds, problems, tuning, study = task
    folder = run_folder(root, arm, seed)
    settings = {"rounds": rounds, "problems": problems, "tuning": tuning, "study": study}
    if finished(folder, settings):
        return
    start, used = time.perf_counter(), time.process_time()
    high = STUDIES[study][0].get("number_high", HIGH)
    scored = scored_problems(problems, tuning, high)
    given = (arm, seed, folder, scored)
    found, cost = warm(*given, high) if arm in WARM else train(*given, rounds, *STUDIES[study])
    cost["cpu_seconds"] = time.process_time() - used
    finish(folder, {"after": {"prover": found.to_dict()}, "cost": cost, "settings": settings})
    values = "  ".join(f"pass@{k} {found.pass_at[k].value:.3f}" for k in KS)
    seconds = f"{time.perf_counter() - start:.0f} s, {cost['cpu_seconds']:.0f} of the processor"
    print(f"{arm:>18} seed {seed}: {values}  ({seconds})", flush=True)


def own_domain(high: int = HIGH) -> Any:
    """The embedded model's, with numbers up to `high`."""
    from dataclasses import replace

    from countdown_selfplay.countdown import CountdownDomain

    domain = CountdownDomain.tiny()
    return replace(domain, spec=replace(domain.spec, number_high=high))


def scored_problems(count: int, tuning: bool, high: int = HIGH) -> list[Any]:
    """`count` of 1,024 held-out problems in equal steps, 512 of which the embedded model can read; or for tuning of
    512 of the training side, 320 of which it can. With `high` up to KNOWN, of those that it can read alone."""
    from countdown_selfplay.countdown import CountdownDomain, generate_problems

    tiny, spec = CountdownDomain.tiny(), own_domain(high).spec
    side = "train" if tuning else "heldout"
    listed = generate_problems(320, tiny.spec, seed=7) if tuning else tiny.held_out(512)
    others = 0 if high <= KNOWN else 192 if tuning else 512
    listed += generate_problems(others, spec, seed=8, split=side, accept=lambda p: not tiny.spec.admits(p))
    return listed[:: max(1, len(listed) // count)][:count]


def train(
    arm: str,
    seed: int,
    folder: Path,
    scored: list[Any],
    rounds: int,
    of_run: dict[str, Any],
    of_proposers: dict[str, dict[str, Any]],
) -> tuple[Any, dict[str, Any]]:
    """The arm's run, and what its prover sampled. of_run, of_proposers: the study's, as in STUDIES."""
    import datasets
    from transformers import PrinterCallback

    from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
    from countdown_selfplay.config.recipes import recipe_fields
    from countdown_selfplay.domains import domain_from
    from countdown_selfplay.evaluation import evaluate_prover
    from countdown_selfplay.tiny import TINY_MODEL_PATH
    from countdown_selfplay.training.checkpoints import newest
    from countdown_selfplay.training.rollouts import sampling_as
    from countdown_selfplay.warm_starts.cli.solve_rates import collect, new_problems

    recipe, changes, of_proposer = ARMS[arm]
    changes = {**COMMON, **of_run, **changes, "max_steps": rounds}
    if arm in MATCHED:
        answers = json.loads((run_folder(folder.parents[1], "ucb", seed) / FINISHED).read_text())["cost"][
            "prover_samples"
        ]
        changes["max_steps"] = round(answers / ROUND)
    labels = run_folder(folder.parents[1], "rloo", seed) / "solve_rates.jsonl"
    kwargs = dict(recipe_fields(recipe, {}, JointSelfPlayConfig).get("proposer_kwargs", {}))
    if kwargs:
        kwargs |= of_proposer | of_proposers.get(arm, {})
        if arm in TAUGHT:
            kwargs["difficulty_kwargs"] = {"labels": str(labels)}
        changes["proposer_kwargs"] = kwargs
    args = JointSelfPlayConfig.from_recipe(recipe, output_dir=str(folder), seed=seed, **changes)
    domain = domain_from(args)
    # None of the scored problems is played: the trainer keeps out what it is evaluated on.
    kept_out = datasets.Dataset.from_list([{"nums": list(p.numbers), "target": p.target} for p in scored])
    trainer = JointConjecturerProverTrainer(str(TINY_MODEL_PATH), args=args, eval_dataset=kept_out)
    trainer.remove_callback(PrinterCallback)
    resumed = newest(folder, 1) is not None
    trainer.train(resume_from_checkpoint=resumed)
    policy = trainer.policies.module, trainer.processing_class
    with sampling_as(trainer.engine, "prover"):
        tokens = args.max_completion_length
        found = evaluate_prover(*policy, scored, domain, n=ANSWERS, ks=KS, max_new_tokens=tokens)
        if arm == "rloo":
            known = [*scored, *(domain.problem(row) for row in trainer.train_dataset)]
            asked = new_problems(domain, 20 * rounds, seed, map(domain.key, known))
            collect(policy, domain, asked, 8, labels, seed, max_new_tokens=tokens)
    counts = trainer.counts
    samples, tokens = counts.samples["prover"], counts.tokens["prover"]
    cost = {"prover_samples": samples, "prover_tokens": tokens, "resumed": resumed}
    return found, {**cost, "label_samples": 8 * 20 * rounds if arm in TAUGHT else 0}


def warm(arm: str, seed: int, folder: Path, scored: list[Any], high: int) -> tuple[Any, dict[str, Any]]:
    """The embedded model as it is, or after IPO."""
    from countdown_selfplay.cli.main import main as command
    from countdown_selfplay.evaluation import evaluate_prover
    from countdown_selfplay.evaluation.model import load_model

    folder.mkdir(parents=True, exist_ok=True)
    if arm == "ipo":
        words = ["ipo", "--recipe", "tiny/ipo", "--output_dir", str(folder / "model"), "--seed", str(seed)]
        if command([*words, "--number_high", str(high), "--report_to", "none"]) != 0:
            raise RuntimeError("The IPO run failed; its last line says why.")
    model = load_model(str(folder / "model") if arm == "ipo" else "tiny", "cpu")
    found = evaluate_prover(*model, scored, own_domain(high), n=ANSWERS, ks=KS, max_new_tokens=16, seed=seed)
    asked = json.loads((folder / "model" / "run.json").read_text())["config"] if arm == "ipo" else {}
    samples = asked.get("problems", 0) * asked.get("samples_per_problem", 0)
    return found, {"prover_samples": samples, "prover_tokens": 0, "label_samples": 0}


def tables(root: Path, arms: list[str], seeds: list[int]) -> str:
    """Markdown: pass@k with differences to the controls, what each cost, how candidates were filtered, and how
    diversity and predictor went from refresh to refresh."""
    from countdown_selfplay.lab.compare import (
        aligned_arms,
        compare_arms,
        load_arms,
        markdown,
        rows_of,
        write_counts,
    )

    paths = {arm: [run_folder(root, arm, seed) for seed in seeds] for arm in arms}
    words = [f"{arm}={','.join(str(path / FINISHED) for path in found)}" for arm, found in paths.items()]
    aligned = aligned_arms(load_arms(words))
    write_counts(root / "counts.json", aligned)
    loaded, lines, out = {arm.name: arm for arm in aligned}, [], {}
    for control, wanted in CONTROLS.items():
        others = [arm for name, arm in loaded.items() if name != control and (not wanted or name in wanted)]
        if control in loaded and others:
            found = compare_arms([loaded[control], *others], KS)
            lines += [f"### Against {control}", "", markdown(rows_of(found), found.notes()), ""]
            out[control] = found.to_dict()
    lines += [
        "### What a run cost", "", "| arm | thousand answers in training | for labels besides | processor, s |",
        "|---|---|---|---|",
    ]  # fmt: skip
    for arm, folders in paths.items():
        lines.append(cost_row(arm, [json.loads((path / FINISHED).read_text())["cost"] for path in folders]))
    (root / "study.json").write_text(json.dumps(out, indent=1) + "\n")
    return "\n".join([*lines, "", *reach_table(aligned), "", *proposer_tables(paths)]) + "\n"


def reach_table(arms: list[Any]) -> list[str]:
    """pass@1 and @16 by whether the embedded model can read all numbers of a problem."""
    from countdown_selfplay.statistics.pass_at_k import pass_at_k_array

    known = [max(map(int, key.split("=")[0].split(","))) <= KNOWN for key in arms[0].results[0].keys]
    heads = [f"pass@{k}, {of}" for of in (f"numbers up to {KNOWN}", "others") for k in (1, 16)]
    lines = [f"### Within reach: {sum(known)} of {len(known)} problems", "", *header(["arm", *heads])]
    for arm in arms:
        cells = []
        for wanted in (True, False):
            for k in (1, 16):
                passed = [pass_at_k_array(result.correct, result.n, k) for result in arm.results]
                found = [value for one in passed for value, own in zip(one, known, strict=True) if own == wanted]
                cells.append(f"{sum(found) / len(found):.3f}" if found else "")
        lines.append(f"| {arm.name} | {' | '.join(cells)} |")
    return lines


def cost_row(arm: str, costs: list[dict[str, Any]]) -> str:
    """Means over seeds. The processor seconds of a run that was resumed are of its last part alone: a dash."""
    wanted = "prover_samples", "label_samples", "cpu_seconds"
    answers, labels, seconds = (sum(cost[of] for cost in costs) / len(costs) for of in wanted)
    shown = "–" if any(cost.get("resumed") for cost in costs) else f"{seconds:.0f}"
    return f"| {arm} | {answers / 1000:.1f} | {labels / 1000:.1f} | {shown} |"


PLAYED = {
    "round/solve_rate_mean": "solve rate, generated",
    "round/anchor_solve_rate_mean": "solve rate, fixed",
    "round/too_hard_share": "generated, too hard",
    "prover/zero_signal_groups": "groups without signal",
    "prover/kl": "KL to the start",
    "prover/entropy": "entropy of a token",
}
CURVES = {
    "proposer/diversity": "Diversity of the selected: mean distance to the archive",
    "proposer/least_p": "Least estimated solve rate among the selected",
    "proposer/score": "Mean R_gen of the valid candidates",
    "proposer/estimate_error": "Mean |estimated - measured solve rate| of problems when they are first played",
    "proposer/brier_before": "Brier score of the predictor on fresh labels, before it learns from them",
    "proposer/brier_after": "and after, of trees that had not seen the label",
    "proposer/bias_before": "Mean estimate less mean fresh solve rate, before",
}


def proposer_tables(paths: dict[str, list[Path]]) -> list[str]:
    """Lines of Markdown about the runs that have a symbolic proposer; report.html of all runs is written beside."""
    from countdown_selfplay.evaluation import write_report
    from countdown_selfplay.lab.report import load_runs
    from countdown_selfplay.lab.report.tables import filtering

    trained = {arm: load_runs(found) for arm, found in paths.items() if arm not in WARM}
    played = ["### What the solver played, mean over seeds and rounds", "", *header(["arm", *PLAYED.values()])]
    for arm, runs in trained.items():
        means = [mean_at([dict(run.series(metric)) for run in runs], 0, 10**9) for metric in PLAYED]
        played.append(f"| {arm} | {' | '.join('' if m is None else f'{m:.3f}' for m in means)} |")
    symbolic = {arm: runs for arm, runs in trained.items() if runs[0].series("proposer/raw")}
    if trained:
        root = next(iter(paths.values()))[0].parents[1]
        write_report([run.path for runs in trained.values() for run in runs], root / "report.html")
    if not symbolic:
        return played if trained else []
    pooled = {arm: filtering(runs) for arm, runs in symbolic.items()}
    reasons = dict.fromkeys(row[0]["text"] for found in pooled.values() if found for row in found.rows)
    lines = [*played, "", "### Filters, mean over seeds and refreshes", "", *header(["", *symbolic])]
    for reason in reasons:
        cells = []
        for found in pooled.values():
            row = next((row[1:] for row in found.rows if row[0]["text"] == reason), []) if found else []
            values = [float(str(cell).rstrip("%")) for cell in row if cell is not None]
            percent = "%" if any("%" in str(cell) for cell in row) else ""
            cells.append(f"{sum(values) / len(values):.1f}{percent}" if values else "")
        lines.append(f"| {reason} | {' | '.join(cells)} |")
    for metric, title in CURVES.items():
        series = {arm: [dict(run.series(metric)) for run in runs] for arm, runs in symbolic.items()}
        steps = sorted({10 * (step // 10) for found in series.values() for points in found for step in points})
        if steps:
            lines += ["", f"### {title}", "", *header(["round", *map(str, steps)])]
        for arm, found in series.items():
            if any(found):
                means = [mean_at(found, low) for low in steps]
                lines.append(f"| {arm} | {' | '.join('' if m is None else f'{m:.3f}' for m in means)} |")
    return lines


def header(cells: list[str]) -> list[str]:
    return [f"| {' | '.join(cells)} |", "|---" * len(cells) + "|"]


def mean_at(found: list[dict[int, float]], low: int, rounds: int = 10) -> float | None:
    """Over so many rounds from `low` on, and over seeds."""
    values = [value for points in found for step, value in points.items() if low <= step < low + rounds]
    return sum(values) / len(values) if values else None


def main(argv: list[str]) -> int:
    names = [*WARM, *ARMS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, help="Default: runs/symbolic, and -quick, -tuning, -first or -paper.")
    parser.add_argument("--arms", nargs="+", choices=names)
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("--rounds", type=int, help="Rounds of a run (100, as in the paper; quick: 20).")
    parser.add_argument("--problems", type=int, help="Scored problems (1,024; quick: 128).")
    parser.add_argument("--workers", type=int, default=2, help="Runs side by side, one core each.")
    parser.add_argument("--quick", action="store_true", help="Few arms, one seed, short runs: does everything work?")
    parser.add_argument("--tuning", action="store_true", help="Score on problems of the training side.")
    of = parser.add_mutually_exclusive_group()
    for name, about in (
        ("first_study", "With the proposers' settings of 2026-11-23."),
        ("paper", "The paper's KL and entropy, numbers that the model can read, 16 of 256 candidates kept."),
    ):
        of.add_argument(f"--{name}", dest="study", action="store_const", const=name[:5], default="", help=about)
    options = parser.parse_args(argv)
    arms = options.arms or list(QUICK if options.quick else names)
    seeds = options.seeds or ([0] if options.quick else [0, 1, 2, 3, 4])
    rounds = options.rounds or (20 if options.quick else 100)
    problems = options.problems or (128 if options.quick else 512 if options.study == "paper" else 1024)
    behind = "-quick" * options.quick + "-tuning" * options.tuning + f"-{options.study}" * bool(options.study)
    root = options.folder or Path(f"runs/symbolic{behind}")
    needy = [arm for arm in arms if arm in TAUGHT]
    if needy and "rloo" not in arms:
        parser.error(f"The predictor of {needy[0]} is first trained on the RLOO run; add rloo to --arms.")
    matched = [arm for arm in arms if arm in MATCHED]
    if matched and "ucb" not in arms:
        parser.error(f"{matched[0]} has as many answers as the UCB run of its seed; add ucb to --arms.")
    start = time.perf_counter()
    for batch in (FIRST, [arm for arm in arms if arm not in FIRST]):  # the others read labels and costs of the first
        tasks = [
            (arm, seed, str(root), rounds, problems, options.tuning, options.study)
            for seed in seeds for arm in batch if arm in arms
        ]  # fmt: skip
        play_all(run, tasks, options.workers)
    text = tables(root, arms, seeds)
    (root / "study.md").write_text(text)
    print(f"\n{text}\n{time.perf_counter() - start:.0f} s. Also in {root}: study.md, study.json and report.html.")
    return 0


if __name__ == "__main__":
    as_program(main)
