"""Do 200 rounds of self-guided self-play cost what the first ones cost, on targets none of which gets solved?

    python benchmarks/sgs_rounds.py                      # about two minutes on one core
    python benchmarks/sgs_rounds.py --rounds 400 --targets 64 --batch 32

The recipe tiny/sgs on targets with four numbers, whose solutions have 7 tokens at least, while the solver may write 5:
problems with two and three numbers can be solved, targets cannot. That is where a program with a memory of what is
unsolved would grow. Reported are the CPU time of a round and of a text (first and last quarter), the resident memory's
slope, Adam's step count, and the generations that were counted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import psutil
import torch
from datasets import Dataset
from flatness import slope
from results import machine, write_json
from transformers import TrainerCallback
from transformers.utils import logging as transformers_logging

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.countdown import ProblemSpec, generate_problems
from countdown_selfplay.tiny import TINY_MODEL_PATH

SETTLING = 20  # rounds in which caches and the allocator's arenas fill
SHORT = 5  # tokens of an answer: (a + b) * c takes 7


class Watch(TrainerCallback):
    """What each round took and left behind."""

    def __init__(self) -> None:
        self.cpu: list[float] = []
        self.memory: list[float] = []
        self.texts: list[int] = []  # all roles' so far
        self.adam: list[dict[str, float]] = []
        self.trainer: Any = None
        self.last = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.last = time.process_time()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        now = time.process_time()
        self.cpu.append(now - self.last)
        self.memory.append(psutil.Process().memory_info().rss / 2**20)
        self.adam.append(adam_steps(self.trainer))
        self.texts.append(self.trainer.counts.generations)
        self.last = time.process_time()


def adam_steps(trainer: Any) -> dict[str, float]:
    """Role -> Adam's step count; 0 before its first step."""
    optimizer = getattr(trainer.optimizer, "optimizer", trainer.optimizer)
    found: dict[str, float] = {}
    for group in optimizer.param_groups:
        steps = [float(optimizer.state[p]["step"]) for p in group["params"] if optimizer.state.get(p)]
        found[group["role"]] = max([found.get(group["role"], 0.0), *steps])
    return found


def build(folder: str, rounds: int, targets: int, batch: int, **changes: Any) -> tuple[Any, Watch]:
    """The trainer of such a run, and what watches it."""
    transformers_logging.set_verbosity_error()
    tiny = str(TINY_MODEL_PATH)
    slots = 2 * batch * 4  # a target and a problem, four answers each
    settings: dict[str, Any] = dict(
        output_dir=folder, max_steps=rounds, steps_per_round=2, proposer_kwargs={"batch": batch},
        num_generations=4, conjecturer_num_generations=1, per_device_train_batch_size=slots // 4,
        problems_per_round=2 * batch, proposals_per_round=batch, conjecturer_model=tiny,
        prover_max_completion_length=SHORT, soft_overlong=0.0, save_strategy="no", report_to="none",
        disable_tqdm=True, use_cpu=True,
    )  # fmt: skip
    problems = generate_problems(targets, ProblemSpec((4,), 1, 12, 1, 99), seed=1)
    rows = Dataset.from_list([{"nums": list(p.numbers), "target": p.target} for p in problems])
    watch = Watch()
    args = JointSelfPlayConfig.from_recipe("tiny/sgs", **{**settings, **changes})
    watch.trainer = JointConjecturerProverTrainer(tiny, args=args, train_dataset=rows, callbacks=[watch])
    return watch.trainer, watch


def measured(trainer: Any, watch: Watch) -> dict[str, Any]:
    """Of a run that has ended: the figures."""
    rounds = len(watch.cpu)
    quarter, skipped = max(1, rounds // 4), min(SETTLING, rounds // 5)
    first, last = watch.cpu[skipped : skipped + quarter], watch.cpu[-quarter:]
    texts = np.diff([0, *watch.texts])  # a conjecturer that learns makes more problems to attempt
    each = 1000 * np.asarray(watch.cpu) / texts
    proposer = trainer.game.proposer
    return {
        "rounds": rounds,
        "solved": len(proposer.solved),
        "generations": trainer.counts.generations,
        "cpu_ms_first": 1000 * statistics.median(first),
        "cpu_ms_last": 1000 * statistics.median(last),
        "cpu_last_over_first": statistics.median(last) / statistics.median(first),
        "texts_a_round_first": float(np.mean(texts[skipped : skipped + quarter])),
        "texts_a_round_last": float(np.mean(texts[-quarter:])),
        "cpu_per_text_last_over_first": float(
            np.median(each[-quarter:]) / np.median(each[skipped : skipped + quarter])
        ),
        "quarter": quarter,
        "memory_mib": watch.memory[-1],
        "memory_slope_mib_per_round": slope(np.asarray(watch.memory[skipped:])),
        "adam_steps": watch.adam[-1],
        "adam_never_reset": all(
            after[role] >= before[role]
            for before, after in zip(watch.adam, watch.adam[1:], strict=False)
            for role in before
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--targets", type=int, default=32)
    parser.add_argument("--batch", type=int, default=16, help="Targets of a round.")
    parser.add_argument("--output", type=Path, metavar="FILE", help="Write the figures as JSON.")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        trainer, watch = build(folder, options.rounds, options.targets, options.batch)
        trainer.train()
        found = measured(trainer, watch)
    write_json(options.output, {**machine(), **vars(options), "output": None, **found, "cpu": watch.cpu})
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
