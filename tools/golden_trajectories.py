"""Do two source trees play the same runs, bit for bit, on this machine?

    python tools/golden_trajectories.py --base COMMIT                 # against the working tree
    python tools/golden_trajectories.py --base COMMIT --head COMMIT --runs default lora --rounds 3
    python tools/golden_trajectories.py --base COMMIT --ignore 'round/dropped_*'

Each run trains the embedded model for a few rounds, once with the package of each tree, in a process of its own with
one thread. Compared are the SHA-256 of every exported tensor and every value of metrics.jsonl, times excepted. Metrics
that only one tree logs are named in a note and are no difference; --ignore lets those that match a pattern differ.
The exit code is 1 if anything differs. Nothing is stored: float bits depend on the CPU.

--base may be any commit. A commit that changes the key of the random seeds changes all that is sampled after it, so
compare up to it with its parent as --head, and from it on with it as --base.

Both trees get the settings of the base's recipes, and the same anchors, made here. The child uses only names that
stay: the trainer, its config, TINY_MODEL_PATH, and the files of a run folder.
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
from collections import defaultdict
from fnmatch import fnmatch
from itertools import zip_longest
from pathlib import Path
from typing import Any

from trees import ROOT, write_tree

RUNS: dict[str, tuple[str, dict[str, Any]]] = {  # name -> recipe of examples/recipes/tiny, changes
    "default": ("default", {}),
    "conservative_binary": ("conservative_binary", {}),
    "aggressive_binary": ("aggressive_binary", {}),
    "anchored_shaped": ("anchored_shaped", {}),
    "anchored_shaped_fixed": ("anchored_shaped_fixed", {}),
    "lora": ("default", {"policy_sharing": "lora"}),
    "tied": ("default", {"policy_sharing": "tied"}),
    # what no run above plays: plain RL with random problems, and other objectives, penalties and entropy bonuses
    "plain_rl": ("rloo", {"random_fraction": 0.25}),
    "other_objectives": (
        "anchored_shaped_fixed",
        {
            "prover_objective": "cispo",
            "conjecturer_objective": "rae",
            "kl_in": "reward",
            "kl_estimator": "k3",  # the recipe's k1 is of a loss term
            "kl_reduction": "sum",
            "prover_beta": 0.0,  # cispo reads no reward that a KL could be charged to
            "use_adaptive_entropy": True,
            "entropy_target": 0.5,
        },
    ),
}

SHORT = dict(
    save_strategy="steps",
    save_steps=2,
    report_to="none",
    disable_tqdm=True,
    use_cpu=True,
    num_generations_eval=4,
    output_dir="run",  # inside the folder in which the child runs
)
TIMES = ("time/*", "*runtime*", "*per_second*", "step_time")
GENERATED = ("default",)  # runs whose anchors are the library's own generator's
SHOWN = 5
NOTHING = [float("inf"), None]  # beyond the last log


# -- the child: one run with the package on PYTHONPATH ---------------------------------------------------------------


def play(tree: str, settings: dict[str, Any], anchors: list[dict[str, Any]] | None, held_out: list) -> dict[str, Any]:
    import torch
    from datasets import Dataset
    from safetensors.torch import load_file

    torch.set_num_threads(1)
    import countdown_selfplay
    from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
    from countdown_selfplay.tiny import TINY_MODEL_PATH

    assert Path(countdown_selfplay.__file__).is_relative_to(tree), f"{countdown_selfplay.__file__} is not in {tree}"
    args = JointSelfPlayConfig(**settings)
    trainer = JointConjecturerProverTrainer(
        model=str(TINY_MODEL_PATH),
        args=args,
        train_dataset=None if anchors is None else Dataset.from_list(anchors),
        eval_dataset=Dataset.from_list(held_out),
    )
    trainer.train()
    trainer.evaluate()
    trainer.save_model("exports")
    weights: dict[str, str] = {}
    for path in sorted(Path("exports").rglob("*.safetensors")):
        folder = str(path.parent.relative_to("exports"))
        for name, tensor in load_file(path).items():
            # commits before save_model wrote a folder a role have one file, with policies.<role>.<name>
            role, _, own = name.removeprefix("policies.").partition(".") if folder == "." else (folder, "", name)
            weights[f"{role}: {own}"] = digest(tensor)
    metrics: dict[str, list[Any]] = defaultdict(list)
    for line in (Path(args.output_dir) / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        for name in sorted(record.keys() - {"step"}):
            if not matches(name, TIMES):
                metrics[name].append([record["step"], record[name]])
    assert weights and len(metrics["loss"]) == settings["max_steps"], "a run without exports or with rounds missing"
    return {"weights": weights, "metrics": metrics}


def digest(tensor: Any) -> str:
    import torch

    found = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)} ".encode())
    found.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


# -- the parent ------------------------------------------------------------------------------------------------------


def problems(n: int) -> list[dict[str, Any]]:
    """`n` different rows "a b + c = target", made without either tree."""
    chance, found = random.Random(0), {}
    while len(found) < n:
        a, b, c = (chance.randint(1, 12) for _ in range(3))
        if a * b + c <= 99:
            found[(*sorted((a, b, c)), a * b + c)] = {"numbers": [a, b, c], "target": a * b + c}
    return list(found.values())


def start(tree: Path, name: str, settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Play the run in a process of its own; {"error": ...} if that fails."""
    folder.mkdir(parents=True)
    rows = problems(288)
    anchors = None if name in GENERATED else rows[32:]
    request = {"tree": str(tree), "settings": settings, "anchors": anchors, "held_out": rows[:32]}
    (folder / "request.json").write_text(json.dumps(request))
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ACCELERATE_", "MASTER_", "PYTHON"))}
    for variable in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):
        kept.pop(variable, None)
    one = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": ""}
    alone = {"PYTHONPATH": str(tree / "src"), "PYTHONHASHSEED": "0", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--child"],
        cwd=folder,
        env={**kept, **one, **alone, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        return {"error": done.stderr.strip()[-3000:]}
    return json.loads((folder / "result.json").read_text())


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
    import yaml

    failed = 0
    with tempfile.TemporaryDirectory() as name:
        work = Path(name).resolve()
        base = write_tree(args.base, work / "base")
        head = ROOT if args.head is None else write_tree(args.head, work / "head")
        print(f"| run | {args.base} and {args.head or 'the working tree'} | tensors | metrics | seconds |")
        print("|---|---|---|---|---|", flush=True)
        for run in args.runs:
            recipe, changes = RUNS[run]
            settings = yaml.safe_load((base / "examples" / "recipes" / "tiny" / f"{recipe}.yaml").read_text())
            del settings["model_name_or_path"]
            settings |= {**SHORT, "max_steps": args.rounds, **changes}
            found, seconds = [], []
            for side, tree in (("base", base), ("head", head)):
                begin = time.perf_counter()
                found.append(start(tree, run, settings, work / "runs" / side / run))
                seconds.append(f"{time.perf_counter() - begin:.0f}")
            wrong, notes = compare(*found, args.ignore)
            failed += bool(wrong)
            sizes = " | ".join(str(len(found[1].get(part, ()))) for part in ("weights", "metrics"))
            print(f"| {run} | {'differs' if wrong else 'equal'} | {sizes} | {' + '.join(seconds)} |", flush=True)
            more = [f"... and {len(wrong) - SHOWN} more"] if len(wrong) > SHOWN else []
            for line in [*wrong[:SHOWN], *more, *(f"note: {note}" for note in notes)]:
                print(f"    {line}", flush=True)
    print(f"{len(args.runs) - failed} of {len(args.runs)} runs are equal.")
    return int(failed > 0)


if __name__ == "__main__":
    if sys.argv[1:] == ["--child"]:  # in the folder of the run, started by `start`
        Path("result.json").write_text(json.dumps(play(**json.loads(Path("request.json").read_text()))))
        raise SystemExit(0)
    raise SystemExit(main())
