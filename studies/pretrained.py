"""Self-play of a pretrained model beside its controls: warm starts, evaluation, arms x seeds, evaluation, intervals.

    python studies/pretrained.py --dry_run       # the stages, which are done, and about how long the others take
    python studies/pretrained.py --seeds 1 2 3   # all of them; a call after an interruption goes on where it was

Each stage is a command of `countdown-selfplay`, skipped where what it writes is there: models/smollm2; the starts of
recipes smollm2-135m/sft_moves and sft_conjecturer; a run of smollm2-135m/ladder for each arm and seed, which resumes
from its newest checkpoint; pass@1 and pass@16 of each prover on the same held-out problems of 3 to 6 numbers.
against-start/comparison.json compares them with the warm start, against-trained/ the controls with `trained`, with
intervals. Arms: `frozen` and `placebo` as in studies/ladder.py, `uniform` (planted problems, no conjecturer) and
`plain` (the same, RLOO on every answer in place of expert iteration), all with the answers of `trained`.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from countdown_selfplay.cli.main import as_program
from countdown_selfplay.cli.main import run as command

MODEL = Path("models/smollm2")
UNIFORM = "--proposer uniform_rungs --conjecturer_players 0"
ARMS = {
    "trained": "",
    "frozen": "--conjecturer_learning_rate 0",
    "placebo": "--shuffled_rewards true",
    "uniform": UNIFORM,
    "plain": f"{UNIFORM} --prover_objective rloo --prover_objective_kwargs {{}} --prover_sequences_per_step 256 "
    "--prover_learning_rate 1e-4 --steps_per_round 1",
}
"""Arm -> what it changes in the recipe smollm2-135m/ladder."""
RUNGS = "3 4 5 6"
MINUTES = {"models": 0.5, "prover": 18.0, "conjecturer": 9.0, "round": 2.5, "problem": 0.035}
"""Of a stage, a round, and a held-out problem with 16 answers, on two cores that were half busy with other work."""


@dataclass(frozen=True)
class Stage:
    """Command, the file that it leaves, the folder in which it keeps checkpoints, and about its minutes."""

    words: list[str]
    done: Path
    minutes: float
    folder: Path | None = None

    def play(self) -> None:
        """Run the command, from the newest checkpoint of an interrupted call."""
        begun = self.folder is not None and any(self.folder.glob("checkpoint-*"))
        if code := command([*self.words, *(["--resume_from_checkpoint", "true"] if begun else [])]):
            raise SystemExit(code)


def stages(root: Path, arms: Sequence[str], seeds: Sequence[int], rounds: int, each: int) -> list[Stage]:
    """All stages, in order."""
    prover, conjecturer = root / "prover", root / "conjecturer"
    found = [Stage(["models", "smollm2", "--output", str(MODEL)], MODEL / "config.json", MINUTES["models"])]
    for folder, recipe in ((prover, "sft_moves"), (conjecturer, "sft_conjecturer")):
        words = f"sft --recipe smollm2-135m/{recipe} --model_name_or_path {MODEL} --output_dir {folder}"
        done = folder / "tokenizer_config.json"  # what a warm start writes behind its weights; a card comes earlier
        found.append(Stage(words.split(), done, MINUTES[folder.name], folder))
    found.append(measured(prover, root / "start.jsonl", each))
    words = ["eval", "--model", str(conjecturer), "--role", "conjecturer", "--samples", "512", "--output"]
    found.append(Stage([*words, str(root / "conjecturer.json")], root / "conjecturer.json", 1.0))
    for seed in seeds:
        for arm in arms:
            folder = root / arm / f"seed-{seed}"
            text = f"joint --recipe smollm2-135m/ladder --model_name_or_path {prover} --output_dir {folder} "
            text += f"--max_steps {rounds} --eval_problems 0 --seed {seed} {ARMS[arm]}"
            text += "" if "--conjecturer_players" in text else f" --conjecturer_model {conjecturer}"
            done = folder / "prover" / "adapter_config.json"
            found.append(Stage(shlex.split(text), done, rounds * MINUTES["round"], folder))
            found.append(measured(folder / "prover", root / f"{arm}-{seed}.jsonl", each))
    return found


def measured(model: Path, output: Path, each: int) -> Stage:
    """Evaluation on `each` held-out problems of each size, 16 answers to each."""
    words = f"eval --model {model} --operands 2 {RUNGS} --rungs {RUNGS} --problems_per_rung {each} --samples 16"
    minutes = MINUTES["problem"] * each * len(RUNGS.split())
    return Stage([*words.split(), "--output", str(output)], output.with_suffix(".json"), minutes)


def compared(root: Path, arms: Sequence[str], seeds: Sequence[int]) -> None:
    """Write comparison.json against the start, and of each arm against `trained`."""
    files = {arm: ",".join(str(root / f"{arm}-{seed}.jsonl") for seed in seeds) for arm in arms}
    words = {"start": [f"start={root / 'start.jsonl'}"], "trained": []}
    for base, own in words.items():
        rest = [f"{arm}={names}" for arm, names in sorted(files.items(), key=lambda item: item[0] != base)]
        if len([*own, *rest]) > 1 and (own or base in files):
            command(["compare", *own, *rest, "--ks", "1", "16", "--output", str(root / f"against-{base}")])


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("runs/pretrained"))
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=["trained", "frozen", "placebo", "plain"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--rounds", type=int, default=60, help="of 256 answers")
    parser.add_argument("--each", type=int, default=64, help="held-out problems of each size")
    parser.add_argument("--dry_run", action="store_true", help="list the stages with about their minutes, and stop")
    asked = parser.parse_args(argv)
    every = stages(asked.folder, asked.arms, asked.seeds, asked.rounds, asked.each)
    if asked.dry_run:
        for one in every:
            print(f"{'done' if one.done.exists() else f'{one.minutes:4.0f}'}  {shlex.join(one.words)}")
        print(f"About {sum(one.minutes for one in every if not one.done.exists()):.0f} minutes on two cores.")
        return 0
    for one in every:
        if not one.done.exists():
            print(f"\n== {shlex.join(one.words)} ==", flush=True)
            one.play()
    compared(asked.folder, asked.arms, asked.seeds)
    return 0


if __name__ == "__main__":
    as_program(main)
