"""What answers in moves cost: rounds in moves against one-shot rounds of the same model, at equal generated tokens.

    python benchmarks/moves_cost.py --rounds 15 --output moves_cost.json
    python benchmarks/moves_cost.py --profile 12

A move is 6 tokens (`6 * 4 = 24` and its end), and a problem of k numbers takes k - 1 moves; how long an episode is
depends on what the model knows, which is not what is measured. So the game goes on whatever is written (one number
less), no end token is sampled before the last place, and every answer is right: an episode is k - 1 completions of 6
tokens, a one-shot answer is one completion of 6 (k - 1) tokens, and both rounds generate and train on as many tokens
of as many answers to the same problems. One frozen conjecturer's turn, which is the same in both, is left out. Both
use the ladder's prover, REINFORCE with reward 1, all rows credited, and one optimizer step a round. The trainers
take turns in one process (pacing.py), in an order that alternates; a ratio is that of neighbouring rounds.

Beside the whole round: `sampling` (TRL's `_generate`), `scoring` (the rest of a turn: the second pass over samples
that REINFORCE's importance weight asks for, tensors, rewards), `update` (micro-batches' forward and backward
passes), `bookkeeping` (the game, credit, rows to windows), `loop` (optimizer, data loader, log). What is not equal
is the prompt: each move reads one, and the cache of an earlier move is of no use for the next.

--profile: rounds of the shipped recipe (tiny/ladder) by phase, then the functions with the most time of their own
(cProfile, whose own cost makes short functions look longer).
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from pacing import Paced, Phases
from results import machine, spread, write_json
from transformers import logging as transformers_logging

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.countdown import CountdownDomain, ProblemSpec
from countdown_selfplay.countdown.planted import planted_problems
from countdown_selfplay.countdown.verifier import Reason, Verdict
from countdown_selfplay.tiny import LADDER_MODEL_PATHS
from countdown_selfplay.training.rollouts import Rollouts
from countdown_selfplay.training.round_loop import RoundLoop

TOKENS = 6
"""Of a move, with its end."""
NAMES = ("sampling", "scoring", "bookkeeping", "update", "loop")


class GoesOn(CountdownDomain):
    """Differs from Countdown in that any text is a move, which takes a number away, and any answer is right."""

    def moved(self, texts: Any, problems: Any, states: Any) -> list[Any]:
        return [list(state[1:]) if len(state) > 2 else right() for state in states]

    def verify(self, texts: Any, problems: Any) -> list[Verdict]:
        return [right() for _ in texts]

    def random(self, n: int, seed: int, exclude: Any = ()) -> list[Any]:
        """Planted for both, at sizes that no solver takes."""
        return planted_problems(n, self.spec, seed, exclude, "train", self.value_high)


def right() -> Verdict:
    return Verdict(1.0, Reason.CORRECT)


def one(completions: list[Any], **_: Any) -> list[float]:
    return [1.0] * len(completions)


def build(moves: bool, numbers: int, options: argparse.Namespace, folder: str) -> JointConjecturerProverTrainer:
    length = TOKENS if moves else TOKENS * (numbers - 1)
    answers, size = options.problems * options.group, options.micro_batch
    config = JointSelfPlayConfig(
        output_dir=folder, max_steps=options.rounds + options.warmup, report_to="none", save_strategy="no",
        disable_tqdm=True, logging_steps=10_000, learning_rate=1e-5, lr_scheduler_type="constant", seed=0, beta=0.0,
        per_device_train_batch_size=size, problems_per_round=options.problems, conjecturer_players=0,
        num_generations=options.group, prover_num_generations=options.group,
        prover_sequences_per_step=answers, prover_objective="reinforce", prover_max_completion_length=length,
        generation_kwargs={"min_new_tokens": length}, gradient_checkpointing=False, guard=False,
        answers="moves" if moves else "whole", temperature=1.0,
    )  # fmt: skip
    spec = ProblemSpec(operands=(numbers,), number_low=1, number_high=12, target_low=1, target_high=99)
    prompt = "compact_moves" if moves else "compact"
    domain = GoesOn(spec, prover_prompt=prompt, conjecturer_prompt="compact_any", answers=config.answers)
    models = {"prover": str(LADDER_MODEL_PATHS["prover"]), "conjecturer": str(LADDER_MODEL_PATHS["conjecturer"])}
    return JointConjecturerProverTrainer(models, args=config, domain=domain, reward_funcs=[one])


def watch(trainer: Any, phases: Phases) -> None:
    phases.wrap(trainer, "training_step", "update")
    phases.wrap(trainer, "_generate", "sampling")


def watch_modules(phases: Phases) -> None:
    """What all trainers call: one of them runs at a time."""
    phases.wrap(RoundLoop, "play", "bookkeeping")
    phases.wrap(Rollouts, "roll_out", "scoring")


def compare(numbers: int, options: argparse.Namespace, phases: Phases) -> dict[str, Any]:
    """Ratios of moves to one-shot for problems of so many numbers."""
    with tempfile.TemporaryDirectory() as folder:
        trainers = {name: build(name == "moves", numbers, options, f"{folder}/{name}") for name in ("moves", "whole")}
        for trainer in trainers.values():
            watch(trainer, phases)
        runners = {name: Paced(trainer) for name, trainer in trainers.items()}
        phases.pop()
        seconds: dict[str, dict[str, list[float]]] = {name: {} for name in runners}
        for i in range(options.rounds + options.warmup):
            for name in list(runners)[:: 1 if i % 2 else -1]:
                total, _ = runners[name].step()
                parts, _ = phases.pop()
                parts |= {"loop": total - sum(parts.values()), "round": total}
                if i >= options.warmup:
                    for part, value in parts.items():
                        seconds[name].setdefault(part, []).append(value)
        for runner in runners.values():
            runner.join()
    answers = options.problems * options.group
    tokens = answers * TOKENS * (numbers - 1)
    found: dict[str, Any] = {"numbers": numbers, "answers": answers, "tokens": tokens}
    for name, parts in seconds.items():
        found[name] = {"seconds": {part: spread(values) for part, values in parts.items()}}
        found[name]["answers_per_second"] = spread([answers / value for value in parts["round"]])
    found["ratio"] = {
        part: spread([m / w for m, w in zip(seconds["moves"][part], seconds["whole"][part], strict=True)])
        for part in ("round", "sampling", "scoring", "update")
    }
    return found


def profile(rounds: int, phases: Phases) -> None:
    """Where a round of the recipe goes."""
    for functions in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            args = JointSelfPlayConfig.from_recipe(
                "tiny/ladder", output_dir=folder, max_steps=rounds, report_to="none", save_strategy="no",
                disable_tqdm=True,
            )  # fmt: skip
            trainer = JointConjecturerProverTrainer({k: str(v) for k, v in LADDER_MODEL_PATHS.items()}, args=args)
            phases.on = not functions
            watch(trainer, phases)
            phases.pop()
            watched = cProfile.Profile()
            if functions:
                watched.runcall(trainer.train)
                pstats.Stats(watched).strip_dirs().sort_stats("tottime").print_stats(25)
                continue
            with phases("loop"):
                trainer.train()
            wall, _ = phases.pop()
            steps = sum(row.get("prover/steps", 0) for row in trainer.state.log_history)
            print(f"{rounds} rounds, {steps:.0f} steps of the prover, {sum(wall.values()):.1f} s")
            for name in NAMES:
                print(f"  {name:<12} {wall[name]:7.2f} s  {wall[name] / sum(wall.values()):6.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--numbers", type=int, nargs="+", default=[3, 6, 10], help="sizes of the problems")
    parser.add_argument("--rounds", type=int, default=15, help="timed rounds of each trainer")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--problems", type=int, default=32, help="of a round")
    parser.add_argument("--group", type=int, default=8, help="answers to a problem")
    parser.add_argument("--micro_batch", type=int, default=256, help="most rows of a micro-batch")
    parser.add_argument("--profile", type=int, metavar="ROUNDS", help="of the recipe instead")
    parser.add_argument("--output", type=Path, help="JSON file for the figures")
    options = parser.parse_args()
    transformers_logging.set_verbosity_error()
    phases = Phases()
    watch_modules(phases)
    if options.profile:
        profile(options.profile, phases)
        return
    results = []
    for numbers in options.numbers:
        found = compare(numbers, options, phases)
        rates = {name: found[name]["answers_per_second"]["median"] for name in ("moves", "whole")}
        print(f"{numbers} numbers: {rates['moves']:.0f} answers/s in moves, {rates['whole']:.0f} in one completion")
        for part, ratio in found["ratio"].items():
            low, high = ratio["interval"]
            print(f"  {part:<9} moves / one-shot {ratio['median']:.2f} [{low:.2f}, {high:.2f}]")
        results.append(found)
    setting = {name: value for name, value in vars(options).items() if name not in ("output", "profile")}
    write_json(options.output, {"machine": machine(), "setting": setting, "sizes": results})


if __name__ == "__main__":
    main()
