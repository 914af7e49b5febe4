"""The compiled update (`torch_compile`) against the plain one: time to the first step, graphs, and time of an update.

    python benchmarks/compiled_update.py --shape tiny --turns 20 --output compiled_update.json

An update: forward, loss and backward of `--lengths` micro-batches of `--groups` x `--answers` rows, each of another
length, by the trainer's own loss on random weights. Both ways take turns in one process, the plain one by
torch.compiler.set_stance("force_eager"); a ratio is that of the two of a turn in the process's CPU time, with a 95%
bootstrap interval of the median. The first update compiles: its wall time is reported, with that of a plain one.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from passes import backward
from results import machine, spread, write_json
from shared_prefix import SHAPES, model_of, rows
from torch._dynamo.utils import counters
from transformers import AutoTokenizer

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.tiny import TINY_MODEL_PATH
from countdown_selfplay.training.plan import Pass


def passes_of(options: argparse.Namespace, vocabulary: int) -> list[Pass]:
    """From half the length on, in equal steps."""
    found = []
    for i in range(options.lengths):
        share = 0.5 + 0.5 * (i + 1) / options.lengths
        own = argparse.Namespace(**{**vars(options), "length": int(options.length * share), "unequal": True})
        found.append(rows(own, vocabulary))
    return found


def update(trainer: Any, passes: list[Pass], stance: str) -> tuple[float, float]:
    """CPU and wall seconds."""
    trainer.model.zero_grad(set_to_none=True)
    cpu, wall = time.process_time(), time.perf_counter()
    with torch.compiler.set_stance(stance):
        backward(trainer, trainer.model, passes)
    return time.process_time() - cpu, time.perf_counter() - wall


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    found.add_argument("--shape", choices=SHAPES, default="tiny")
    found.add_argument("--prompt", type=int, default=14)
    found.add_argument("--length", type=int, default=16)
    found.add_argument("--answers", type=int, default=8)
    found.add_argument("--groups", type=int, default=8)
    found.add_argument("--lengths", type=int, default=4)
    found.add_argument("--shared_prefix", choices=("auto", "off"), default="auto")
    found.add_argument("--backend", default="inductor")
    found.add_argument("--turns", type=int, default=20)
    found.add_argument("--output", type=Path)
    return found


def main() -> None:
    options = parser().parse_args()
    transformers.logging.set_verbosity_error()
    model = model_of(options.shape)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", f"{folder}/cache")  # or a second run would compile nothing
        config = JointSelfPlayConfig(
            output_dir=folder, per_device_train_batch_size=options.groups * options.answers,
            problems_per_round=options.groups, conjecturer_players=0, num_generations=options.answers,
            report_to="none", save_strategy="no",
            gradient_checkpointing=False, guard=False, max_steps=1, use_cpu=True,
            domain_kwargs={"prover_prompt": "compact", "conjecturer_prompt": "compact"},
            shared_prefix=options.shared_prefix, torch_compile_backend=options.backend,
        )  # fmt: skip
        tokenizer = AutoTokenizer.from_pretrained(str(TINY_MODEL_PATH), padding_side="left")
        trainer = JointConjecturerProverTrainer(model=model, args=config, processing_class=tokenizer)
        trainer.model.train()
        passes = passes_of(options, model.config.vocab_size)
        plain_first = update(trainer, passes, "force_eager")[1]
        first = update(trainer, passes, "default")[1]
        seconds: dict[str, list[float]] = {"force_eager": [], "default": []}
        for turn in range(options.turns):
            for stance in sorted(seconds, reverse=bool(turn % 2)):
                seconds[stance].append(update(trainer, passes, stance)[0])
    ratio = spread([a / b for a, b in zip(seconds["default"], seconds["force_eager"], strict=True)])
    graphs, saved = counters["stats"]["unique_graphs"], {name: spread(found) for name, found in seconds.items()}
    low, high = ratio["interval"]
    print(f"first update {first:.1f} s (plain {plain_first:.2f} s), {graphs} graphs for {options.lengths} lengths")
    print(f"CPU time, compiled / plain {ratio['median']:.3f} [{low:.3f}, {high:.3f}]")
    print({name: round(found["median"], 4) for name, found in saved.items()})
    write_json(
        options.output,
        {
            "machine": machine(), "setting": {k: str(v) for k, v in vars(options).items()}, "graphs": graphs,
            "first_update_seconds": {"compiled": first, "plain": plain_first},
            "cpu_seconds": {"compiled": saved["default"], "plain": saved["force_eager"]}, "ratio": ratio,
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
