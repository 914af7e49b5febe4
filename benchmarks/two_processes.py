"""Rounds of two processes on this machine, for simulate_scaling.py to be checked against.

    python benchmarks/two_processes.py --rounds 20 --output docs/benchmarks/two_processes.json

Two kinds of run take turns, both of two processes at the same time, so that they share cores, memory and whatever else
the machine does: `alone`, two trainers that do not know of each other, gives the phase times that the simulator is fed
with; `ddp`, started by torchrun, gives the round times that it must predict, and in the same processes how long an
all-reduce of n bytes and a gather of objects take.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from contenders import Setting, build, prepare_model
from pacing import Phases
from results import machine, write_json
from transformers import TrainerCallback

from countdown_selfplay.distributed.processes import Processes

SIZES = (1, 2**10, 2**14, 2**17, 2**20)  # float32 values in an all-reduce
MODEL = dict(model="tiny", batch=32, prover=2, conjecturer=1, group=8, length=16)


class _Rounds(TrainerCallback):
    """Wall seconds and phases from one round's begin to the next one's."""

    def __init__(self, phases: Phases) -> None:
        self.phases, self.start, self.rounds = phases, 0.0, []

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        now = time.perf_counter()
        wall, _ = self.phases.pop()
        if self.start:
            self.rounds.append({"wall": now - self.start, "phases": wall})
        self.start = now


def calibrate(repeats: int = 15) -> dict[str, Any]:
    """Median seconds of an all-reduce by bytes, and of a gather of objects."""
    from accelerate.utils import gather_object

    found: dict[str, Any] = {"all_reduce": {}}
    for size in SIZES:
        tensor, seconds = torch.zeros(size), []
        for _ in range(repeats):
            torch.distributed.barrier()
            start = time.perf_counter()
            torch.distributed.all_reduce(tensor)
            seconds.append(time.perf_counter() - start)
        found["all_reduce"][str(4 * size)] = sorted(seconds)[repeats // 2]
    seconds = []
    for _ in range(repeats):
        torch.distributed.barrier()
        start = time.perf_counter()
        gather_object([0.0] * 32)
        seconds.append(time.perf_counter() - start)
    found["gather_object"] = sorted(seconds)[repeats // 2]
    return found


def worker(rounds: int, output: str) -> None:
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        setting = Setting(folder=prepare_model("tiny", None, "", Path(folder)), steps=rounds + 3, **MODEL)  # type: ignore[arg-type]
        trainer, phases, _ = build("joint", setting, folder)
        counted = _Rounds(phases)
        trainer.add_callback(counted)
        calls = {"gather": 0, "reduce": 0, "gather_object": 0}
        accelerator = trainer.accelerator
        owners = {"gather": (accelerator, "gather"), "reduce": (Processes, "_reduced")}
        for name, (owner, attribute) in {**owners, "gather_object": (Processes, "gather")}.items():
            inner = getattr(owner, attribute)

            def counting(*args: Any, _inner: Any = inner, _name: str = name, **kwargs: Any) -> Any:
                calls[_name] += 1
                return _inner(*args, **kwargs)

            setattr(owner, attribute, counting)
        trainer.train()
        parameters = sum(p.numel() for p in trainer.model.parameters() if p.requires_grad)
        found = {
            "processes": accelerator.num_processes, "rounds": counted.rounds[2:], "gradient_bytes": 4 * parameters,
            "calls_per_round": {name: count / setting.steps for name, count in calls.items()},
        }  # fmt: skip
        if accelerator.num_processes > 1:
            found["wrapped"] = type(trainer.model_wrapped).__name__
            found["communication"] = calibrate()
    Path(f"{output}.{os.environ.get('RANK', '0')}").write_text(json.dumps(found))


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run(kind: str, rounds: int, folder: str, turn: int) -> list[dict[str, Any]]:
    environment = {**os.environ, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    script = [str(Path(__file__)), "--rounds", str(rounds), "--worker", f"{folder}/{kind}{turn}"]
    if kind == "ddp":
        launch = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_addr", "127.0.0.1"]
        commands = [[*launch, "--master_port", str(free_port()), *script]]
        files = [f"{folder}/ddp{turn}.{rank}" for rank in (0, 1)]
    else:
        commands = [[*script[:-1], f"{folder}/alone{turn}{i}"] for i in (0, 1)]
        files = [f"{folder}/alone{turn}{i}.0" for i in (0, 1)]
    # A session of their own, as torchrun gives its workers: Linux shares the cores out among sessions.
    pipes = dict(
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )  # fmt: skip
    started = [subprocess.Popen([sys.executable, *command], **pipes) for command in commands]  # type: ignore[call-overload]
    for process in started:
        said, _ = process.communicate(timeout=580)
        if process.returncode:
            raise SystemExit(said[-3000:])
    return [json.loads(Path(file).read_text()) for file in files]


def main() -> None:
    parser = argparse.ArgumentParser(description="Rounds of two processes, alone and under DDP.")
    parser.add_argument("--rounds", type=int, default=20, help="timed rounds of each run")
    parser.add_argument("--turns", type=int, default=3, help="runs of each kind")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.rounds, options.worker)
        return
    turns = []
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(options.turns):
            turns.append({kind: run(kind, options.rounds, folder, turn) for kind in ("alone", "ddp")})
    assert all(rank["processes"] == 2 for turn in turns for rank in turn["ddp"])
    result = {"machine": machine(), "setting": MODEL, "rounds": options.rounds, "turns": turns}
    from simulate_scaling import check_text

    print(check_text(result))
    write_json(options.output, result)


if __name__ == "__main__":
    main()
