"""Does a prover of condensed detachment gain over its warm start, and does a guided conjecturer help it with theorems
that it cannot prove?

    python studies/detachment.py                      # both studies, three seeds
    python studies/detachment.py --arms replay        # expert iteration on theorems of all lengths alone
    python studies/detachment.py --quick              # one seed, two rounds of every arm: does everything run?

`replay` is the recipe tiny/detachment_replay. The targets of the other arms are the theorems of the training side with
shortest proofs of 11 to 15 signs; those that the warm start proves in none of ATTEMPTS answers are *unproved*, and it
counts how many of them are proved. The arms have equal answers of the prover in each round: 32 targets of 8 answers,
or 16 targets, a lemma for each that is not solved yet, and the next targets in the places that lemmas leave empty. All
are scored on all held-out theorems before and after. Runs are
resumable: what is finished is read, and what was stopped goes on from a checkpoint. Written to --folder: a run folder
per arm and seed, the targets, `study.md` and `counts.json`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from many_runs import finish, finished, play_all, run_folder

from countdown_selfplay.cli.main import as_program

ATTEMPTS = 16
ALONE = {"conjecturer_players": 0, "proposer_kwargs": {"batch": 32}}
GUIDED = {"proposer_kwargs": {"batch": 16, "fill": True}}
REPLAY = {
    "prover_objective": "expert_iteration",
    "prover_objective_kwargs": {"reuse": 15, "per_problem": 2, "capacity": 2000, "per_token": True},
    "prover_sequences_per_step": 128,
    "steps_per_round": 12,
    "prover_learning_rate": 5e-4,
    "prover_beta": 0.0,
}
ARMS: dict[str, dict[str, Any]] = {  # on the targets: what changes in the recipe tiny/detachment_sgs
    "sampling": {**ALONE, "prover_learning_rate": 0.0},
    "reinforce_half": ALONE,
    "sgs": GUIDED,
    "no_guide": {**GUIDED, "guide": "none"},
    "frozen": {**GUIDED, "guide": "none", "conjecturer_learning_rate": 0.0},
    "expert_iteration": {**ALONE, **REPLAY},
    "sgs_repeats": {**GUIDED, "novelty_window": 0},  # a lemma of the last 20 rounds is played again
}
EVERY = ["replay", *ARMS]
PAIRS = (
    ("reinforce_half", "sampling"), ("expert_iteration", "sampling"), ("sgs", "sampling"), ("sgs", "reinforce_half"),
    ("sgs", "no_guide"), ("sgs", "frozen"), ("sgs_repeats", "sgs"), ("sgs_repeats", "reinforce_half"),
    ("no_guide", "reinforce_half"), ("frozen", "reinforce_half"),
)  # fmt: skip
ROUNDS = {"replay": 400, "targets": 120}
ANSWERS, KS = 32, (1, 32)
MARK = "finished"


def targets(root: Path, most: int | None) -> Path:
    """A file with the theorems of 11 to 15 signs, `most` of them or all, and how often the warm start proves each."""
    from countdown_selfplay.data.run_files import write_atomically
    from countdown_selfplay.domains import make_domain
    from countdown_selfplay.evaluation import evaluate_prover
    from countdown_selfplay.evaluation.model import load_model

    file = root / "targets.jsonl"
    if not file.exists():
        domain = make_domain("detachment", {"shortest_proof": 11})
        all_ = domain.random(most or 10**6, 0)
        found = evaluate_prover(*load_model("tiny-detachment", "cpu"), all_, domain, ATTEMPTS, (1,), max_new_tokens=24)
        rows = [{"theorem": domain.key(one), "right": n} for one, n in zip(all_, found.correct, strict=True)]
        write_atomically(file, "".join(json.dumps(row) + "\n" for row in rows))
        print(f"{len(rows)} targets, {found.correct.count(0)} of them unproved", flush=True)
    return file


def run(task: tuple[str, int, Path, dict[str, int], int]) -> None:
    """One arm with one seed, from its start or its last checkpoint, scored before and after. task: arm, seed, folder
    of the study, rounds, held-out theorems."""
    from countdown_selfplay.cli.main import main as command

    arm, seed, root, rounds, scored = task
    folder = run_folder(root, arm, seed)
    own = rounds["replay" if arm == "replay" else "targets"]
    settings = {"rounds": own, "scored": scored}
    if finished(folder, settings, MARK):
        return
    changes: dict[str, Any] = {"recipe": "tiny/detachment_replay"}
    if arm != "replay":
        changes = {"recipe": "tiny/detachment_sgs", "dataset_name": root / "targets.jsonl", **ARMS[arm]}
        changes["domain_kwargs"] = {"shortest_proof": 5}  # the held-out theorems of both studies are the same
    changes |= {"output_dir": folder, "seed": seed, "max_steps": own, "eval_problems": scored}
    changes |= {"num_generations_eval": ANSWERS, "save_steps": max(own // 2, 1)}
    changes |= {"report_to": "none", "disable_tqdm": True, "use_cpu": True}
    if any(folder.glob("checkpoint-*")):
        changes["resume_from_checkpoint"] = "auto"
    words = [(f"--{k}", json.dumps(v) if isinstance(v, dict) else str(v)) for k, v in changes.items()]
    if command(["joint", *(word for pair in words for word in pair)]) != 0:
        raise RuntimeError(f"The run in {folder} failed; its last line says why.")
    finish(folder, {"settings": settings}, MARK)
    print(f"{arm} seed {seed}: finished", flush=True)


# -- what is told ----------------------------------------------------------------------------------------------------


def table(root: Path, arms: Sequence[str], seeds: Sequence[int]) -> str:
    """Markdown: held-out pass@1 and pass@32 before and after with their differences, and the targets that were solved;
    and both as counts.json, by theorem and by round."""
    from countdown_selfplay.lab.compare import Arm, aligned_arms, compare_arms, load_result, write_counts
    from countdown_selfplay.lab.report import load_run
    from countdown_selfplay.lab.report.targets import first_solved

    folders = {arm: [run_folder(root, arm, seed) for seed in seeds] for arm in arms}
    before = [load_result(f"{own}:before") for own in folders[arms[0]]]
    after = [Arm(arm, [load_result(str(own)) for own in folders[arm]]) for arm in arms]
    loaded = aligned_arms([Arm("start", before), *after])
    found = compare_arms(loaded, KS)
    head = [f"pass@{k}{of}" for k in KS for of in ("", " less the start")]
    lines = [f"| arm ({len(seeds)} seeds) | {' | '.join(head)} |", "|---" * (2 * len(KS) + 1) + "|"]
    for name in found.arms:
        less = {one.k: str(one.percentile) for one in found.differences if one.arm == name}
        cells = [cell for k in KS for cell in (f"{found.values[name, k].value:.4f}", less.get(k, ""))]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    write_counts(root / "counts.json", loaded)
    counts = json.loads((root / "counts.json").read_text())
    solved, cost = {}, {}
    for arm in arms:
        runs = [load_run(own) for own in folders[arm]]
        rows = [[row for row in one.rounds if "round/generations" in row] for one in runs]
        cost[arm] = [
            {
                "answers": len(own) * (512 if arm == "replay" else 256),
                "steps": sum(row.get("prover/steps", 1) for row in own),
            }
            for own in rows
        ]
        if arm in ARMS:
            solved[arm] = [
                rates(first_solved(one), unproved(root), len(own)) for one, own in zip(runs, rows, strict=True)
            ]
    lines += of_targets(solved, cost)
    counts |= {
        "targets_solved": {arm: [own[9::10] for own in runs_of] for arm, runs_of in solved.items()},
        "cost": cost,
    }
    (root / "counts.json").write_text(json.dumps(counts, separators=(",", ":")) + "\n", encoding="utf-8")
    return "\n".join(lines) + "\n"


def unproved(root: Path) -> list[str]:
    """The targets that the warm start did not prove."""
    rows = map(json.loads, (root / "targets.jsonl").read_text(encoding="utf-8").splitlines())
    return [row["theorem"] for row in rows if not row["right"]]


def rates(first: dict[str, int | None], keys: Sequence[str], rounds: int) -> list[float]:
    """After each round the share of `keys` that are solved. first: key -> the round that solved it, from 1 on."""
    return [sum((first[key] or rounds + 1) <= at for key in keys) / len(keys) for at in range(1, rounds + 1)]


def of_targets(solved: dict[str, list[list[float]]], cost: dict[str, list[dict[str, float]]]) -> list[str]:
    """Two tables: the share of unproved targets that were solved, at a half and at the end, and the differences of
    PAIRS with Student's intervals over seeds."""
    from countdown_selfplay.statistics.bootstrap import independent_difference, t_interval

    if not solved:
        return []
    ends = {arm: [own[-1] for own in shares] for arm, shares in solved.items()}
    lines = ["", "| arm | answers a run | steps | solved at a half | solved at the end | by seed |", "|---" * 6 + "|"]
    for arm, shares in solved.items():
        answers, steps = (mean([one[name] for one in cost[arm]]) for name in ("answers", "steps"))
        half = mean([own[max(len(own) // 2 - 1, 0)] for own in shares])
        by_seed = ", ".join(f"{value:.3f}" for value in ends[arm])
        lines.append(f"| {arm} | {answers:,.0f} | {steps:,.0f} | {half:.3f} | {mean(ends[arm]):.3f} | {by_seed} |")
    pairs = [pair for pair in PAIRS if set(pair) <= set(ends) and min(len(ends[arm]) for arm in pair) > 1]
    lines += ["", "| solved at the end | difference |", "|---|---|"] if pairs else []
    for first, second in pairs:
        gap = independent_difference(t_interval(ends[second]), t_interval(ends[first]))
        lines.append(f"| {first} less {second} | {gap.difference:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}] |")
    return lines


def mean(values: Sequence[float]) -> float:
    return float(sum(values)) / len(values)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--folder", type=Path, help="Default: runs/detachment-study, with --quick runs/detachment-quick."
    )
    parser.add_argument("--arms", nargs="+", choices=EVERY, default=EVERY)
    parser.add_argument("--seeds", type=int, nargs="+", help="Default: 0 to 2; 0 with --quick.")
    parser.add_argument("--rounds", type=int, help="Of every arm (400 of replay, 120 of others; with --quick 2).")
    parser.add_argument("--workers", type=int, default=1, help="Runs side by side, one core each.")
    parser.add_argument("--quick", action="store_true", help="One seed, two rounds of every arm, 8 held-out theorems.")
    asked = parser.parse_args(argv)
    root = asked.folder or Path("runs/detachment-quick" if asked.quick else "runs/detachment-study")
    root.mkdir(parents=True, exist_ok=True)
    rounds = dict.fromkeys(ROUNDS, asked.rounds or 2) if asked.quick or asked.rounds else ROUNDS
    seeds = asked.seeds or ([0] if asked.quick else [0, 1, 2])
    if set(asked.arms) & set(ARMS):
        targets(root, 120 if asked.quick else None)
    scored = 8 if asked.quick else 130
    play_all(run, [(arm, seed, root, rounds, scored) for seed in seeds for arm in asked.arms], asked.workers)
    text = table(root, asked.arms, seeds)
    (root / "study.md").write_text(text, encoding="utf-8")
    print(f"\n{text}\nAlso in {root}: study.md and counts.json.")
    return 0


if __name__ == "__main__":
    as_program(main)
