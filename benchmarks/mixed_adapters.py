"""One pass over the rows of all players of a LoRA pool against a pass per player: operator calls, time and memory.

    python benchmarks/mixed_adapters.py --shape tiny --turns 20 --output mixed_adapters.json

A 2 x 2 and a 4 x 4 pool, `--rows` rows of each player behind prompts of `--prompt` tokens, answers of up to
`--length`; both ways the trainer's own losses, backward passes included, on the same rows and random adapters on all
linear layers. Calls: operators of ATen in one update as torch's profiler sees them, nested ones too. Seconds, of the
process's CPU time, are the median over turns that alternate in one process; a ratio is that of the two ways of a turn,
with its 95% bootstrap interval. Memory as in shared_prefix.py.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from passes import backward, random_lengths, random_pass
from results import machine, spread, write_json
from shared_prefix import LIBC, SHAPES, model_of, resident
from torch.profiler import ProfilerActivity, profile
from transformers import AutoTokenizer

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.policies.shared_prefix import SharedPrefix
from countdown_selfplay.tiny import TINY_MODEL_PATH
from countdown_selfplay.training.plan import Pass, side_by_side

GOAL = 1.2
"""Operator calls of a mixed pass over those of separate ones, times the number of players, at most."""


def pool(folder: str, model: Any, players: int, options: argparse.Namespace) -> Any:
    roles = {kind: {"players": players} for kind in ("prover", "conjecturer")}
    sizes = {"problems_per_round": options.rows // options.answers, "proposals_per_round": options.rows}
    config = JointSelfPlayConfig(
        output_dir=folder, per_device_train_batch_size=options.rows, **sizes, roles=roles, policy_sharing="lora",
        mixed_adapters="on", num_generations=options.answers, report_to="none", save_strategy="no", guard=False,
        gradient_checkpointing=False, max_steps=1, use_cpu=True, shared_prefix="off",
        domain_kwargs=dict(prover_prompt="compact", conjecturer_prompt="compact", operands=[2, 3, 4, 5, 6]),
        proposer="tiers", proposer_kwargs={"start": list(range(2, 2 + players)), "ceiling": 6, "min_valid": 0},
    )  # fmt: skip
    tokenizer = AutoTokenizer.from_pretrained(str(TINY_MODEL_PATH), padding_side="left")
    return JointConjecturerProverTrainer(model=model, args=config, processing_class=tokenizer)


def update(trainer: Any, passes: list[Pass], shared: Any, memory: bool = False) -> tuple[float, float]:
    """CPU seconds and MiB (`memory`) of a step's forward passes, losses and backward passes."""
    trainer.policies.module.get_base_model().shared_prefix = shared
    trainer.model.zero_grad(set_to_none=True)
    if memory:
        LIBC.malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    before, start = resident("VmRSS"), time.process_time()
    backward(trainer, trainer.model, passes)
    return time.process_time() - start, resident("VmHWM") - before


def calls(trainer: Any, passes: list[Pass]) -> int:
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        update(trainer, passes, None)
    return sum(event.count for event in seen.key_averages() if event.key.startswith("aten::"))


def turns(trainer: Any, ways: dict[str, Any], count: int, what: int) -> dict[str, list[float]]:
    """By way, `what` of its updates (0: seconds, 1: MiB); the ways take turns in a rotating order."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(count):
        names = list(ways)
        for name in names[turn % 4 :] + names[: turn % 4]:
            found[name].append(update(trainer, *ways[name], memory=what == 1)[what])
    return found


def measured(players: int, options: argparse.Namespace, folder: str) -> dict[str, Any]:
    model = model_of(options.shape)
    trainer = pool(f"{folder}/{players}", model, players, options)
    for name in trainer.policies.weight_names:
        for key, weight in trainer.policies.named_parameters(name):
            if "lora_B" in key:
                torch.nn.init.normal_(weight, std=0.02)
    trainer.model.train()
    parts = []
    for i, role in enumerate(trainer.learners):
        lengths = random_lengths(options.length // 4, options.length, options.rows, i)
        parts.append(random_pass(lengths, options.prompt, model.config.vocab_size, options.answers, role, i))
    mixed = side_by_side(parts)
    ways = {"separate": (parts, None), "mixed": (mixed, None)}
    shared = SharedPrefix(model, always=False)
    ways |= {"separate, shared prompts": (parts, shared), "mixed, shared prompts": (mixed, shared)}
    for passes, prefix in ways.values():
        update(trainer, passes, prefix)
    counted = {name: calls(trainer, ways[name][0]) for name in ("separate", "mixed")}
    times = turns(trainer, ways, options.turns, 0)
    for setting, usual in ((-1, 131072), (-3, 131072)):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD: what is free goes back
        LIBC.mallopt(setting, usual)
    most = turns(trainer, ways, 3, 1)
    for setting in (-1, -3):  # up to so much it stays, as glibc comes to do by itself
        LIBC.mallopt(setting, 2**30)
    ratio = {}
    for name in ("mixed", "mixed, shared prompts"):
        over = name.replace("mixed", "separate")
        ratio[f"{name} / {over}"] = spread([a / b for a, b in zip(times[name], times[over], strict=True)])
    return {
        "players": 2 * players, "operator_calls": counted,
        "calls_ratio_times_players": counted["mixed"] / counted["separate"] * 2 * players,
        "cpu_seconds": {name: spread(values) for name, values in times.items()}, "time_ratio": ratio,
        "memory_mib": {name: spread(values) for name, values in most.items()},
    }  # fmt: skip


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    found.add_argument("--shape", choices=SHAPES, default="tiny")
    found.add_argument("--prompt", type=int, default=14)
    found.add_argument("--length", type=int, default=16)
    found.add_argument("--rows", type=int, default=16, help="of each player")
    found.add_argument("--answers", type=int, default=8, help="rows with one prompt")
    found.add_argument("--pools", type=int, nargs="+", default=[2, 4], help="N of N x N")
    found.add_argument("--turns", type=int, default=20)
    found.add_argument("--output", type=Path)
    return found


def main() -> None:
    options = parser().parse_args()
    transformers.logging.set_verbosity_error()
    result: dict[str, Any] = {"machine": machine(), "setting": {k: str(v) for k, v in vars(options).items()}}
    with tempfile.TemporaryDirectory() as folder:
        for players in options.pools:
            name = f"{players} x {players}"
            result[name] = found = measured(players, options, folder)
            own = found["calls_ratio_times_players"]
            print(f"{name}: calls {found['operator_calls']}, ratio {own:.2f} / {2 * players} players (goal {GOAL})")
            for what, one in found["time_ratio"].items():
                low, high = one["interval"]
                print(f"  CPU time, {what}: {one['median']:.3f} [{low:.3f}, {high:.3f}]")
            for what in ("cpu_seconds", "memory_mib"):
                print(f"  {what}", json.dumps({way: round(one["median"], 3) for way, one in found[what].items()}))
    write_json(options.output, result)


if __name__ == "__main__":
    main()
