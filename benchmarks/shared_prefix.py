"""Update with prompts read once a group against the plain update: time, and memory above the weights.

    python benchmarks/shared_prefix.py --shape smollm2-135m --turns 6 --output shared_prefix.json

Forward, loss and backward of one micro-batch of `--groups` x `--answers` rows, prompts of `--prompt` tokens, the first
`--start` of them the same for all, and answers of `--length` (`--unequal`: from a quarter of it on), by the trainer's
own loss on random weights, alternating in one process. A ratio is that of the two passes of a turn; 95% bootstrap
intervals of the median. Memory, in turns of its own: the most that the process holds in an update above what it held
before, gradients included, by Linux's own mark, with an allocator that keeps nothing that is free. On a GPU, in bf16:
wall time between two waits for the device, and the allocator's peak.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from contenders import shape_of
from passes import backward, random_lengths, random_pass
from results import machine, spread, write_json
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from countdown_selfplay import JointConjecturerProverTrainer, JointSelfPlayConfig
from countdown_selfplay.policies.shared_prefix import SharedPrefix
from countdown_selfplay.tiny import TINY_MODEL_PATH
from countdown_selfplay.training.plan import Pass

LIBC = ctypes.CDLL("libc.so.6")
SHAPES = ("tiny", "smollm2-135m", "qwen2.5-0.5b", "qwen2.5-1.5b", "qwen3-0.6b")
GPU = torch.cuda.is_available()


def model_of(shape: str) -> Any:
    """Random weights in the shape of a model (from its config.json), or the embedded model."""
    torch.manual_seed(0)
    if shape == "tiny":
        return AutoModelForCausalLM.from_pretrained(str(TINY_MODEL_PATH))
    if shape != "smollm2-135m":
        return AutoModelForCausalLM.from_config(shape_of(shape), dtype=torch.float32)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
            num_key_value_heads=3, max_position_embeddings=8192, tie_word_embeddings=True, pad_token_id=0,
            bos_token_id=1, eos_token_id=2,
        )
    )  # fmt: skip


def rows(options: argparse.Namespace, vocabulary: int) -> Pass:
    least = options.length // 4 if options.unequal else options.length
    lengths = random_lengths(least, options.length, options.groups * options.answers)
    return random_pass(lengths, options.prompt, vocabulary, options.answers, start=options.start)


def resident(name: str) -> float:
    """MiB: VmRSS, now; VmHWM, the most since `forget`."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


def update(trainer: Any, head: Any, shared: Any, batch: Pass) -> tuple[float, float]:
    """Seconds (of the CPU, or on a GPU of the clock) and MiB of one forward, loss and backward."""
    head.shared_prefix = shared
    trainer.model.zero_grad(set_to_none=True)
    if GPU:
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
        torch.cuda.synchronize()
        start = time.perf_counter()
        with trainer.accelerator.autocast():
            backward(trainer, trainer.model, [batch])
        torch.cuda.synchronize()
        return time.perf_counter() - start, (torch.cuda.max_memory_allocated() - held) / 2**20
    LIBC.malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before, start = resident("VmRSS"), time.process_time()
    backward(trainer, trainer.model, [batch])
    return time.process_time() - start, resident("VmHWM") - before


def turns(trainer: Any, head: Any, ways: dict[str, Any], batch: Pass, count: int, what: int) -> Any:
    """By way, `what` of its updates (0: seconds, 1: MiB); the ways take turns in a rotating order."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(count):
        names = list(ways)
        for name in names[turn % 3 :] + names[: turn % 3]:
            found[name].append(update(trainer, head, ways[name], batch)[what])
    return found


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--shape", choices=SHAPES, default="tiny")
    made.add_argument("--prompt", type=int, default=162)
    made.add_argument("--start", type=int, default=0, help="tokens with which all prompts begin")
    made.add_argument("--length", type=int, default=64)
    made.add_argument("--answers", type=int, default=8)
    made.add_argument("--groups", type=int, default=1)
    made.add_argument("--unequal", action="store_true")
    made.add_argument("--checkpointing", action="store_true", help="recompute activations")
    made.add_argument("--turns", type=int, default=6)
    made.add_argument("--output", type=Path)
    return made


def main() -> None:
    options = parser().parse_args()
    transformers.logging.set_verbosity_error()
    model = model_of(options.shape)
    with tempfile.TemporaryDirectory() as folder:
        config = JointSelfPlayConfig(
            output_dir=folder, per_device_train_batch_size=options.groups * options.answers,
            problems_per_round=options.groups, conjecturer_players=0, num_generations=max(options.answers, 2),
            report_to="none", save_strategy="no",
            gradient_checkpointing=options.checkpointing, guard=False, max_steps=1, bf16=GPU,
            domain_kwargs=dict(prover_prompt="compact", conjecturer_prompt="compact"),
        )  # fmt: skip
        tokenizer = AutoTokenizer.from_pretrained(str(TINY_MODEL_PATH), padding_side="left")
        trainer = JointConjecturerProverTrainer(model=model, args=config, processing_class=tokenizer)
        if options.checkpointing:
            trainer.model.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
        trainer.model.train()
        batch = rows(options, model.config.vocab_size)
        ways = {"plain": None, "shared": SharedPrefix(model, always=True), "auto": SharedPrefix(model, always=False)}
        for shared in ways.values():
            update(trainer, model, shared, batch)
        found = [turns(trainer, model, ways, batch, options.turns, 0)]
        for setting in (-1, -3):  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD: what is freed goes back at once
            LIBC.mallopt(setting, 262144)
        found.append(turns(trainer, model, ways, batch, 3, 1))
    result: dict[str, Any] = {
        "machine": machine(),
        "clock": "wall" if GPU else "cpu",
        "setting": {k: str(v) for k, v in vars(options).items()},
    }
    for i, what in enumerate(("seconds", "memory_mib")):
        result[what] = {name: spread(values) for name, values in found[i].items()}
        for way in ("shared", "auto"):
            ratios = [a / b for a, b in zip(found[i][way], found[i]["plain"], strict=True)]
            result[f"{what}_{way}_to_plain"] = one = spread(ratios)
            low, high = one["interval"]
            print(f"{what}: {way} / plain {one['median']:.3f} [{low:.3f}, {high:.3f}]")
        print(json.dumps({name: round(one["median"], 4) for name, one in result[what].items()}))
    write_json(options.output, result)


if __name__ == "__main__":
    main()
