"""Measured peak memory of joint rounds, one child process per cell.

    python benchmarks/memory.py --smollm2 FOLDER --output memory.json

Every cell is `joint --probe` (planning/probe.py) on random or given weights in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from contenders import prepare_model
from results import machine, write_json

_SHORT = {"prover_prompt": "compact", "conjecturer_prompt": "compact"}
_LONG = {"domain_kwargs": _SHORT, "max_completion_length": 48}
_TINY = {
    "domain_kwargs": {**_SHORT, "operands": [3], "number_high": 12, "target_low": 1, "target_high": 99},
    "max_completion_length": 16, "per_device_train_batch_size": 64,
}  # fmt: skip
_FOUR = {**_LONG, "per_device_train_batch_size": 4}
HALVES = ("sampling", "training")
_ON_GPU = {**_LONG, "max_completion_length": 256, "per_device_train_batch_size": 32}
CELLS: dict[str, dict[str, Any]] = {
    "tiny, full": {"model": "tiny", **_TINY},
    "smollm2, tied": {"model": "smollm2", "policy_sharing": "tied", **_FOUR},
    "smollm2, tied, checkpointing": {
        "model": "smollm2", "policy_sharing": "tied", "gradient_checkpointing": True, **_FOUR
    },
    "smollm2, tied, bf16": {"model": "smollm2", "policy_sharing": "tied", "bf16": True, **_FOUR},
    "smollm2, full, beta": {"model": "smollm2", "beta": 0.01, **_FOUR},
    "smollm2, lora": {"model": "smollm2", "policy_sharing": "lora", **_FOUR},
    "smollm2, tied, DDP x 2": {"model": "smollm2", "policy_sharing": "tied", "processes": 2, **_FOUR},
    "qwen 0.5B, lora": {"model": "qwen", "policy_sharing": "lora", **_FOUR},
    "qwen 0.5B, tied, checkpointing": {
        "model": "qwen", "policy_sharing": "tied", "gradient_checkpointing": True, **_FOUR
    },
    "random 0.5B, full": {"model": "random", **_ON_GPU},
    "random 0.5B, lora": {"model": "random", "policy_sharing": "lora", **_ON_GPU},
    "1,024 texts of 1,024 tokens, 0.5B, full": {
        "model": "random", "texts": 512, **_LONG, "max_completion_length": 1024, "per_device_train_batch_size": 16
    },
}  # fmt: skip


def loaded(path: str) -> Any:
    """A model whose weights lie in memory of their own, not in a mapped file, which would count as soon as it is
    written to."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(path, dtype="float32")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.data = parameter.data.clone()
    return model


def measure(cell: dict[str, Any], output: str) -> None:
    """Run one cell in this process and write its figures to `output` (main process only)."""
    import torch
    from transformers import AutoTokenizer
    from transformers.utils import logging
    from trl import ModelConfig

    from countdown_selfplay import JointSelfPlayConfig
    from countdown_selfplay.config.script import JointScriptArguments
    from countdown_selfplay.planning.dry_run import Plans
    from countdown_selfplay.planning.memory import GIB, launch_of, total
    from countdown_selfplay.planning.probe import probe

    logging.set_verbosity_error()
    torch.set_num_threads(1)
    settings = {k: v for k, v in cell.items() if k not in ("model", "path", "processes", "texts")}
    texts = cell.get("texts", cell["per_device_train_batch_size"] * cell.get("processes", 1))
    args = JointSelfPlayConfig(
        output_dir=output + ".run", max_steps=1, problems_per_round=texts // 2, proposals_per_round=texts,
        num_generations=4, report_to="none", use_cpu=not torch.cuda.is_available(),
        **{"beta": 0.0, "gradient_checkpointing": False, "bf16": torch.cuda.is_available(), **settings},
    )  # fmt: skip
    plans = Plans(JointScriptArguments(eval_problems=0), args, ModelConfig(), cell["path"])
    lasting, *halves = plans(args, launch_of(args))
    tokenizer = AutoTokenizer.from_pretrained(cell["path"], padding_side="left")
    found = probe(args, {"model": loaded(cell["path"]), "processing_class": tokenizer})
    if args.process_index == 0:
        content = {
            "measured": {half: found[half] for half in HALVES},
            "estimated": {half: total(lasting, own) / GIB for half, own in zip(HALVES, halves, strict=True)},
            "lengths": {k: v for k, v in found["log"].items() if k.endswith("completion_length_max")},
            **{name: found[name] for name in ("after_imports", "wrapped", "processes")},
        }
        Path(output).write_text(json.dumps(content))


def run_cell(name: str, cell: dict[str, Any], folder: str) -> dict[str, Any]:
    """Measure a cell in a child (or, for DDP, in children)."""
    output = str(Path(folder) / "cell.json")
    line = [sys.executable, __file__, "--cell", json.dumps(cell), "--output", output]
    # What is freed goes back to the system at once: the allocator's own stock is not what a run needs.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    environment |= {"MALLOC_MMAP_THRESHOLD_": "262144", "MALLOC_TRIM_THRESHOLD_": "262144"}
    if cell.get("processes", 1) > 1:
        line[1:1] = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(cell["processes"])]
        environment["ACCELERATE_USE_CPU"] = "true"
    done = subprocess.run(line, env=environment, capture_output=True, text=True)
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["?"])[-1][:200]}
    found = json.loads(Path(output).read_text())
    if found["processes"] != cell.get("processes", 1):
        return {"failed": f"{found['processes']} processes ran instead of {cell['processes']}"}
    return found


def row(name: str, found: dict[str, Any]) -> str:
    """A line of the table: GiB of each half, measured and by the dry run."""
    if "failed" in found:
        return f"| {name} | failed: {found['failed']} |"
    kinds = (found["measured"], found["estimated"])
    return f"| {name} | " + " | ".join(f"{one[half]:.2f}" for half in HALVES for one in kinds) + " |"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("--smollm2", help="a folder with SmolLM2-135M; without it only the tiny model is measured")
    made.add_argument("--only", help="cells whose name contains this")
    made.add_argument("--output", type=Path, help="JSON file for the figures")
    made.add_argument("--cell", help=argparse.SUPPRESS)
    return made


def main() -> int:
    options = parser().parse_args()
    if options.cell:
        measure(json.loads(options.cell), str(options.output))
        return 0
    import torch

    from countdown_selfplay.tiny import TINY_MODEL_PATH

    results: dict[str, Any] = {}
    print("| cell | sampling | dry run | training | dry run |")
    with tempfile.TemporaryDirectory() as folder:
        paths = {"tiny": str(TINY_MODEL_PATH), "smollm2": options.smollm2}
        for name, cell in CELLS.items():
            wanted = options.only in name if options.only else cell["model"] != "random"
            if not wanted or (cell["model"] in ("smollm2", "qwen") and not options.smollm2):
                continue
            if cell.get("bf16") and not torch.cuda.is_available():
                continue  # emulated there: hours, not minutes
            if cell["model"] not in paths:  # Qwen2.5-0.5B's shape with another model's tokenizer
                tokenizer = options.smollm2 if cell["model"] == "qwen" else "tiny"
                paths[cell["model"]] = prepare_model("qwen2.5-0.5b", None, tokenizer, Path(folder) / cell["model"])
            results[name] = run_cell(name, {**cell, "path": paths[cell["model"]]}, folder)
            print(row(name, results[name]), flush=True)
    write_json(options.output, {"machine": machine(), "cells": results})
    return int(any("failed" in found for found in results.values()))


if __name__ == "__main__":
    raise SystemExit(main())
