"""Do two source trees play the same runs, bit for bit, on this machine?

    python tools/golden_trajectories.py --base COMMIT                 # against the working tree
    python tools/golden_trajectories.py --base COMMIT --head COMMIT --runs default lora --rounds 3
    python tools/golden_trajectories.py --base COMMIT --ignore 'round/dropped_*'

Each run is a command on the embedded models for a few rounds, once with the package of each tree, in a process with
one thread. Compared are the SHA-256 of every tensor that the run leaves outside its checkpoints, every value of
metrics.jsonl, and the evaluations before and after; for the iterated critic game every count of its log. Times are
excepted. Metrics that only one tree logs are named in a note and are no difference; --ignore lets those that match a
pattern differ. The exit code is 1 if anything differs. Nothing is stored: float bits depend on the CPU.

--base may be any commit. A commit that changes the key of the random seeds changes all that is sampled after it, so
compare up to it with its parent as --head, and from it on with it as --base.

Both trees get the settings of the base's recipes as the flat names of a YAML file, each in its own words
(convert_settings.py), and the same problems and demonstrations, made here. Self-guided self-play and the critic game
start from models that two of the runs, with the base's package, fine-tune. Only names that stay are used: the program,
its options, and the files of a run folder.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from itertools import zip_longest
from pathlib import Path
from typing import Any

from convert_settings import convert
from trees import ROOT, write_tree


@dataclass(frozen=True)
class Run:
    """A command, the recipe of examples/recipes/tiny that it begins with, changes to it, and the run that makes the
    model which it starts from."""

    recipe: str
    changes: dict[str, Any] = field(default_factory=dict)
    command: str = "joint"
    start: str | None = None


NEW_NAMES = {"conjecturer_model_name_or_path": "conjecturer_model"}
"""Settings that recipes had before the settings of roles were fields."""
ANCHORS, FEW, LABELS, GAME = (f"data/{name}.jsonl" for name in ("anchors", "few", "labels", "game"))
LADDER = {"operands": [3, 4, 5, 6], "eval_problems": 16, "eval_rungs": [3, 4], "eval_dataset_name": None}
NO_CONJECTURER = {"conjecturer_players": 0, "conjecturer_sequences_per_step": None, "conjecturer_model": None}
SGS = {
    "model_name_or_path": "tiny",
    "conjecturer_model": "starts/sft/run",
    "dataset_name": ANCHORS,
    "operands": [3],
    "prover_learning_rate": 1e-4,
}
CRITICS = {"model_name_or_path": "starts/sft_game/run", "dataset_name": FEW}
OFTEN = {"candidates": 64, "refresh": 1, "keep": 16}
PREDICTED = {**OFTEN, "relabel": 16, "relabel_samples": 4, "relabel_every": 1, "features": 13}
PREDICTED |= {"difficulty_kwargs": {"labels": LABELS}}

RUNS = {
    "default": Run("default"),  # anchors of the library's own generator
    "conservative_binary": Run("conservative_binary", {"dataset_name": ANCHORS}),
    "aggressive_binary": Run("aggressive_binary", {"dataset_name": ANCHORS}),
    "anchored_shaped": Run("anchored_shaped", {"dataset_name": ANCHORS}),
    "anchored_shaped_fixed": Run("anchored_shaped_fixed", {"dataset_name": ANCHORS}),
    "lora": Run("default", {"policy_sharing": "lora", "dataset_name": ANCHORS}),
    "tied": Run("default", {"policy_sharing": "tied", "dataset_name": ANCHORS}),
    # what no run above plays: plain RL with random problems, and other objectives, penalties and entropy bonuses
    "plain_rl": Run("rloo", {"random_fraction": 0.25, "dataset_name": ANCHORS}),
    "other_objectives": Run(
        "anchored_shaped_fixed",
        {
            "dataset_name": ANCHORS,
            "prover_objective": "cispo",
            "conjecturer_objective": "rae",
            "kl_in": "reward",
            "kl_estimator": "k3",  # the recipe's k1 is of a loss term
            "kl_reduction": "sum",
            "prover_beta": 0.0,  # cispo reads no reward: nothing that a KL or a penalty could be charged to
            "length_penalty": 0.0,
            "length_penalty_floor": None,
            "use_adaptive_entropy": True,
            "entropy_target": 0.5,
        },
    ),
    "moves": Run("ladder", LADDER),
    "rungs": Run("ladder", {**LADDER, "proposer": "ucb_rungs", **NO_CONJECTURER}),
    "pool": Run(
        "pool",
        {
            "model_name_or_path": "tiny",
            "conjecturer_model_name_or_path": "tiny",
            "dataset_name": ANCHORS,
            "proposer_kwargs": {"start": [3, 3], "low": 0.2, "high": 0.7, "floor": 2, "ceiling": 4, "min_valid": 6},
        },
    ),
    "sgs": Run("sgs", SGS, start="sft"),
    "sgs_judge": Run("sgs", {**SGS, "guide": "judge", "roles": {"guide": {"weights": "start"}}}, start="sft"),
    "sgs_stp": Run("sgs_stp", SGS, start="sft"),
    # a refresh in each round, so that what was learned from the round before is seen
    "symbolic_ours": Run("symbolic_ours", {"dataset_name": ANCHORS, "proposer_kwargs": OFTEN}),
    "symbolic_ucb": Run("symbolic_ucb", {"dataset_name": ANCHORS, "proposer_kwargs": OFTEN}),
    "symbolic_refresh": Run("symbolic_refresh", {"dataset_name": ANCHORS, "proposer_kwargs": PREDICTED}),
    "cdg": Run("cdg", CRITICS, start="sft_game"),
    "iterated_cdg": Run(
        "iterated_cdg",
        {
            **CRITICS,
            "chunk": 8,
            "eval_samples": 4,
            "role_training": {
                "prover": {"num_generations": 4, "balance": 1000, "learning_rate": 3e-4, "batch_size": 64},
                "helpful": {"num_generations": 8, "learning_rate": 3e-4, "batch_size": 16},
                "misleading": {"num_generations": 4, "learning_rate": 3e-4, "batch_size": 16, "threshold": 0.3},
            },
        },
        command="cdg",
        start="sft_game",
    ),
    "sft": Run("sft_sgs_conjecturer", {"demonstrations": 1536}, command="sft"),
    "sft_game": Run("sft", {"dataset_name": GAME, "keep_wrong": True, "number_high": 12}, command="sft"),
    "ipo": Run("ipo", {"problems": 128, "dataset_name": ANCHORS}, command="ipo"),
}

SHORT: dict[str, Any] = {
    "output_dir": "run",  # inside the folder in which the process runs
    "eval_dataset_name": "data/held_out.jsonl",
}
TRAINED = {"eval_proposals": 64, "report_to": "none", "disable_tqdm": True, "use_cpu": True}
ROUNDS = {"save_strategy": "steps", "save_steps": 2, "num_generations_eval": 4, "report": False}
TIMES = ("time/*", "*runtime*", "*per_second*", "*seconds*", "step_time")
SHOWN = 5
NOTHING = [float("inf"), None]  # beyond the last log


# -- what both trees are given -------------------------------------------------------------------------------------


def problems(n: int) -> list[dict[str, Any]]:
    """`n` different rows "a b + c = target", made without either tree."""
    chance, found = random.Random(0), {}
    while len(found) < n:
        a, b, c = (chance.randint(1, 12) for _ in range(3))
        if a * b + c <= 99:
            found[(*sorted((a, b, c)), a * b + c)] = {"numbers": [a, b, c], "target": a * b + c}
    return list(found.values())


def demonstrations(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The critic game's texts for the embedded model: answers, one of three wrong; critiques of right and wrong ones,
    which name the first step; and revisions, one of three wrong: so that each role earns something, and not always."""
    for row in rows:
        a, b, c = row["numbers"]
        asked, right, wrong = f"{a} {b} {c} = {row['target']} :", f"{a} * {b} + {c}", f"{a} + {b} + {c}"
        yield from ({**row, "prompt": asked, "completion": answer} for answer in (right, right, wrong))
        for answer, step in ((right, f"{a} * {b}"), (wrong, f"{a} + {b}")):
            yield {**row, "prompt": f"critic {asked} {answer} :", "completion": step}
            for revised in ("right" if answer == right else right, right, wrong):
                yield {**row, "prompt": f"again {asked} {answer} : {step} :", "completion": revised}


def write_data(folder: Path) -> None:
    rows = problems(288)
    written = {
        "held_out": rows[:32],
        "anchors": rows[32:],
        "labels": [{**row, "correct": i % 9, "attempts": 8} for i, row in enumerate(rows[32:])],
        "few": rows[32:48] * 9,  # so that a short fine-tuning learns the critic game on them by heart
        "game": [row for _ in range(32) for row in demonstrations(rows[32:48])],
    }
    folder.mkdir()
    for name, lines in written.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def settings_of(run: Run, recipes: Path, rounds: int) -> dict[str, Any]:
    """The flat settings of a run: its recipe over those that the recipe begins with, and the changes."""
    import yaml

    found: dict[str, Any] = {"recipe": f"tiny/{run.recipe}"}
    while name := found.pop("recipe", None):
        found = yaml.safe_load((recipes / f"{name}.yaml").read_text()) | found
    found |= SHORT
    if run.command != "cdg":
        found |= TRAINED
    if run.command == "joint":
        found |= {**ROUNDS, "max_steps": rounds}
    for name, value in run.changes.items():  # a mapping entry by entry
        below = found.get(name)
        found[name] = {**below, **value} if isinstance(below, dict) and isinstance(value, dict) else value
    return found


def counts_rows(tree: Path) -> bool:
    """Whether the package of a tree reads the sizes of a round in micro-batches."""
    return "problems_per_round" not in "".join(
        path.read_text() for path in (tree / "src").glob("countdown_selfplay/config/*.py")
    )


# -- a run and what it leaves --------------------------------------------------------------------------------------


def play(tree: Path, run: Run, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The run with the package of `tree`, in a process of its own; {"error": ...} if that fails."""
    folder.mkdir(parents=True)
    work = folder.parents[2]
    (folder / "data").symlink_to(work / "data")
    (folder / "starts").symlink_to(work / "runs" / "base")
    (folder / "settings.yaml").write_text(json.dumps(settings))
    program = tomllib.loads((tree / "pyproject.toml").read_text())["project"]["scripts"]["countdown-selfplay"]
    module, _, name = program.partition(":")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ACCELERATE_", "MASTER_", "PYTHON"))}
    for variable in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):
        kept.pop(variable, None)
    one = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": ""}
    alone = {"PYTHONPATH": str(tree / "src"), "PYTHONHASHSEED": "0", "HF_HUB_OFFLINE": "1"}
    code = f"import sys, {module} as m; assert m.__file__.startswith({str(tree)!r}); sys.exit(m.{name}())"
    done = subprocess.run(
        [sys.executable, "-c", code, run.command, "--config", "settings.yaml"],
        cwd=folder,
        env={**kept, **one, **alone, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        return {"error": done.stderr.strip()[-3000:]}
    return left_in(folder / "run")


def left_in(folder: Path) -> dict[str, Any]:
    """Digests of the weights and values of the metrics, each with its step, that a run left in its folder."""
    found = {"weights": dict(weights(folder)), "metrics": defaultdict(list)}
    for step, name, value in (*logged(folder), *evaluated(folder)):
        if not matches(name, TIMES):
            found["metrics"][name].append([step, value])
    assert found["weights"] and found["metrics"], f"{folder} holds no weights or no metrics"
    return found


def weights(folder: Path) -> Iterator[tuple[str, str]]:
    """ "folder: tensor" and the SHA-256 of its dtype, shape and bytes. A file of safetensors is the length of its
    header, the header as JSON, and the bytes."""
    for path in sorted(folder.rglob("*.safetensors")):
        place = path.parent.relative_to(folder)
        if any(part.startswith("checkpoint-") for part in place.parts):
            continue
        data = path.read_bytes()
        start = 8 + int.from_bytes(data[:8], "little")
        for name, tensor in sorted(json.loads(data[8:start]).items()):
            if name != "__metadata__":
                first, end = tensor["data_offsets"]
                known = f"{tensor['dtype']} {tensor['shape']} ".encode() + data[start + first : start + end]
                yield f"{place}: {name}", hashlib.sha256(known).hexdigest()


def logged(folder: Path) -> Iterator[tuple[float, str, Any]]:
    """Round, name and value of all that the run logged; of an iterated one by iteration, phase and role. Trees before
    8c69e7aa counted the optimizer steps of a round."""
    run = json.loads((folder / "run.json").read_text()) if (folder / "run.json").exists() else {}
    each = 1 if run.get("counts") == "rounds" else run.get("config", {}).get("steps_per_round") or 1
    for path in (folder / "metrics.jsonl", folder / "iterations.jsonl"):
        for line in path.read_text().splitlines() if path.exists() else ():
            record = json.loads(line)
            step = record.pop("step") / each if "step" in record else record.pop("iteration")
            place = "/".join(record.pop(key) for key in ("phase", "role") if key in record)
            for name, value in sorted(leaves(record, place)):
                yield step, name, value


def evaluated(folder: Path) -> Iterator[tuple[float, str, Any]]:
    path = folder / "evaluation.json"
    for name, value in leaves(json.loads(path.read_text()), "evaluation") if path.exists() else ():
        yield 0 if "/before/" in name else float("inf"), name, value


def leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The values of nested JSON objects, by their path."""
    if not isinstance(value, dict):
        yield name, value
        return
    for key, part in value.items():
        yield from leaves(part, f"{name}/{key}" if name else key)


# -- the comparison ------------------------------------------------------------------------------------------------


def compare(base: dict[str, Any], head: dict[str, Any], ignored: list[str]) -> tuple[list[str], list[str]]:
    """Differences, the earliest metric first, and notes on metrics that one tree alone logs."""
    wrong = [f"{side}: {found['error']}" for side, found in (("base", base), ("head", head)) if "error" in found]
    if wrong:
        return wrong, []
    a, b = base["metrics"], head["metrics"]
    early = []
    for name in sorted(a.keys() & b.keys()):
        if a[name] != b[name] and not matches(name, ignored):
            there, here = next((x, y) for x, y in zip_longest(a[name], b[name], fillvalue=NOTHING) if x != y)
            early.append((min(there[0], here[0]), f"metric {name}: {said(there)} != {said(here)}"))
    wrong = [text for _, text in sorted(early)]
    only = {side: sorted(x.keys() - y.keys()) for side, x, y in (("base", a, b), ("head", b, a))}
    a, b = base["weights"], head["weights"]
    unequal = [key for key in sorted(a.keys() | b.keys()) if a.get(key) != b.get(key)]
    if unequal:
        missing = {key: "only in base" if key in a else "only in head" for key in a.keys() ^ b.keys()}
        names = ", ".join(f"{key} ({missing.get(key, 'other values')})" for key in unequal[:2])
        wrong.insert(min(len(wrong), SHOWN - 1), f"weights: {len(unequal)} tensors, among them {names}")
    return wrong, [f"only {side} logs {', '.join(names)}" for side, names in only.items() if names]


def said(entry: list[Any]) -> str:
    return "nothing" if entry is NOTHING else f"{entry[1]} at step {entry[0]}"


def matches(name: str, patterns: Any) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, metavar="COMMIT")
    parser.add_argument("--head", metavar="COMMIT", help="The working tree if it is left out.")
    parser.add_argument("--runs", nargs="+", choices=RUNS, default=list(RUNS), metavar="RUN", help=", ".join(RUNS))
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--ignore", nargs="+", default=[], metavar="PATTERN", help="Metrics that may differ.")
    args = parser.parse_args()

    failed = 0
    with tempfile.TemporaryDirectory() as name:
        work = Path(name).resolve()
        write_data(work / "data")
        base = write_tree(args.base, work / "base")
        head = ROOT if args.head is None else write_tree(args.head, work / "head")
        recipes = base / "examples" / "recipes"
        renamed = counts_rows(base) and not counts_rows(head)
        played: dict[tuple[str, str], tuple[dict[str, Any], float]] = {}

        def result(side: str, run: str) -> tuple[dict[str, Any], float]:
            """What the run left and its seconds; with the base's package if it is only started from."""
            if (side, run) not in played:
                start = RUNS[run].start
                before = result("base", start)[0] if start else {}
                begin = time.perf_counter()
                settings = settings_of(RUNS[run], recipes, args.rounds)
                place = work / "runs" / side / run
                tree = base if side == "base" else head
                if renamed and side == "head":
                    settings = convert(settings)
                if not (tree / "src" / "countdown_selfplay" / "config" / "flat.py").exists():
                    settings = {NEW_NAMES.get(name, name): value for name, value in settings.items()}
                found = before if "error" in before else play(tree, RUNS[run], settings, place)
                played[side, run] = found, time.perf_counter() - begin
            return played[side, run]

        print(f"| run | {args.base} and {args.head or 'the working tree'} | tensors | metrics | seconds |")
        print("|---|---|---|---|---|", flush=True)
        for run in args.runs:
            (there, before), (here, after) = result("base", run), result("head", run)
            wrong, notes = compare(there, here, args.ignore)
            failed += bool(wrong)
            sizes = " | ".join(str(len(here.get(part, ()))) for part in ("weights", "metrics"))
            said = "differs" if wrong else "equal"
            print(f"| {run} | {said} | {sizes} | {before:.0f} + {after:.0f} |", flush=True)
            more = [f"... and {len(wrong) - SHOWN} more"] if len(wrong) > SHOWN else []
            for line in [*wrong[:SHOWN], *more, *(f"note: {note}" for note in notes)]:
                print(f"    {line}", flush=True)
    print(f"{len(args.runs) - failed} of {len(args.runs)} runs are equal.")
    return int(failed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
