"""`python -m docs.pictures.playgrounds`: write the playground pages of docs/assets/ from the recorded games.

`--record` plays these games again first (a minute of CPU time): other versions of the libraries play others.
"""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from pathlib import Path

from countdown_selfplay.cli.main import main as countdown_selfplay

RECORDED = Path(__file__).resolve().parent / "recorded"
ASSETS = RECORDED.parents[1] / "assets"
COMMANDS = {
    "ladder": "countdown-selfplay joint --recipe tiny/ladder --problems_per_round 8 --proposals_per_round 16 "
    "--conjecturer_num_generations 16 --conjecturer_sequences_per_step 16 --max_steps 60 --logging_steps 10 "
    "--logging_first_step true --samples_per_log 100 --seed 0",
    "default": "countdown-selfplay joint --recipe tiny/default --per_device_train_batch_size 32 "
    "--problems_per_round 8 --proposals_per_round 32 --prover_num_generations 8 --conjecturer_num_generations 32 "
    "--max_steps 120 --logging_steps 20 --logging_first_step true --samples_per_log 100 --seed 0",
}
"""Smaller rounds than those of the recipes, so that a page can show whole ones."""
KEPT = (
    *("seed", "max_steps", "steps_per_round", "logging_steps", "samples_per_log", "policy_sharing", "operands"),
    *("prover_objective", "conjecturer_objective", "conjecturer_reward", "answers", "prover_num_generations"),
    *("number_high", "target_high", "prover_learning_rate", "conjecturer_learning_rate", "prover_prompt"),
)
"""Settings that the pages show or need."""


def note(name: str) -> str:
    """The line at the head of a page."""
    return f"Recorded with: {COMMANDS[name]}"


def record(name: str) -> None:
    """Play a game, and keep of its run folder what its page is made from."""
    with tempfile.TemporaryDirectory() as folder:
        if countdown_selfplay([*shlex.split(COMMANDS[name])[1:], "--output_dir", folder]):
            raise SystemExit(f"{COMMANDS[name]} failed")
        keep(Path(folder), name)


def keep(run: Path, name: str) -> None:
    place = RECORDED / name
    place.mkdir(parents=True, exist_ok=True)
    found = json.loads((run / "run.json").read_text(encoding="utf-8"))
    config = {field: found["config"][field] for field in KEPT if field in found["config"]}
    kept = {"name": f"tiny/{name}", "config": config, "environment": found["environment"]}
    (place / "run.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    for log in ("metrics.jsonl", "samples.jsonl"):
        (place / log).write_bytes((run / log).read_bytes())


def write(name: str, output: Path) -> None:
    countdown_selfplay(["playground", str(RECORDED / name), "--output", str(output), "--note", note(name)])


if __name__ == "__main__":
    for name in COMMANDS:
        if "--record" in sys.argv[1:]:
            record(name)
        write(name, ASSETS / f"playground-{name}.html")
