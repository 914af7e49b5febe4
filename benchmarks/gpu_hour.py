"""What the documentation leaves open, measured in two hours and a half on one GPU, in steps of ten minutes.

    python benchmarks/gpu_hour.py                      # the jobs that are not done, until ten minutes are over
    python benchmarks/gpu_hour.py --minutes 150        # all of them
    python benchmarks/gpu_hour.py --dry_run            # what each measures, its minutes and its command; runs nothing
    python benchmarks/gpu_hour.py --quick --folder quick    # the same jobs with small shapes, on a CPU

Where the wheel is installed and no checkout: `python -m countdown_selfplay.benchmarks.gpu_hour`.

A job is a command of this folder in a process of its own, which ends after JOB_MINUTES at the latest. It writes
FOLDER/NAME.json, beside NAME.log; a job whose file is there is not run again, so that the same line goes on where the
last call ended. What failed is listed with its last line and tried again by the next call. A job is started only if
the minutes that it is expected to take are left. FOLDER/gpu_hour.md has the figures of all that is done: samples and
tokens a second of a joint round at 0.5B and 1.5B parameters by weights and sampler, stock trainers beside it, the
update alone at prime-rl's shapes, the launches and waits of a round, peak memory beside the dry run's estimate, and
shared prompts on and off. Weights are random, so that texts have full length but in the jobs `-tail`, and nothing
comes from a hub; `--tokenizer FOLDER` (a tokenizer with a chat template) measures chat prompts of 162 tokens, without
it prompts are short ones.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
JOB_MINUTES = 9.0
STEPS, TIMED_MINUTES = 12, 7
"""Timed steps of a contender, for an interval of 12 values, beside two of warm-up; and the minutes of such a job, in
proportion from 4 for 6 steps and 2, so that one still ends within ten."""


@dataclass(frozen=True)
class Job:
    """A command of benchmarks/. minutes: expected on an H100; needs: a package without which it is left out."""

    name: str
    script: str
    flags: tuple[str, ...]
    minutes: float
    needs: str | None = None

    def command(self, output: Path) -> list[str]:
        return [sys.executable, str(HERE / f"{self.script}.py"), *self.flags, "--output", str(output)]


MEASURES = {
    "train_only": "tokens a second and peak memory of updates alone",
    "shared_prefix": "time and memory of scoring with shared prompts against plain",
    "throughput": "samples and completion tokens a second, peak memory",
    "memory": "peak memory of both halves of a round",
}
STOCK = ("trl_rloo", "trl_grpo", "trl_rloo_conjecturer", "trl_grpo_conjecturer")


OPERATORS = "launches, waits, reads and copies of a round, and the operators that take its time"


def jobs(quick: bool, tokenizer: str | None = None, flash: bool = False) -> list[Job]:
    """All jobs in the order in which they run: the cheapest answers first. `flash`: flash-attn is installed."""
    attention = ("--attention", "flash_attention_2") if flash else ()
    prompts = ("--tokenizer", tokenizer or "tiny", "--prompts", "chat" if tokenizer else "compact")
    made = []
    for width, adapters in (("full", ()), ("lora", ("--lora", "16"))):
        flags = ("--model", "qwen3-0.6b", *adapters, *attention)
        if quick:
            flags = ("--model", "tiny", *adapters, "--sequence_length", "64", "--steps", "2", "--warmup", "1")
        made.append(Job(f"update-0.6b-{width}", "train_only", flags, 3))
    for checkpointing in ((), ("--checkpointing",)):
        flags = ("--shape", "qwen2.5-0.5b", "--groups", "4", "--turns", "10", *checkpointing)
        if quick:
            flags = ("--shape", "tiny", "--prompt", "8", "--length", "8", "--turns", "2", *checkpointing)
        made.append(Job(f"shared-prefix-0.5b{'-recomputed' if checkpointing else ''}", "shared_prefix", flags, 2))
    short = ("--steps", "1", "--warmup", "1", "--length", "64")
    for sharing in ("full", "lora"):
        model = ("--quick",) if quick else ("--model", "qwen2.5-0.5b", *prompts, *attention, *short)
        flags = (*model, "--operators", "joint", "--sharing", sharing)
        made.append(Job(f"operators-0.5b-{sharing}", "throughput", flags, 4))
    for size, checkpointing in (("0.5b", ()), ("1.5b", ("--gradient_checkpointing",))):
        model = ("--model", f"qwen2.5-{size}", *prompts, *checkpointing, *attention)
        timed = ("--steps", str(STEPS), "--memory")
        if quick:
            model, timed = ("--model", "tiny", *checkpointing), ("--quick",)
        # At 1.5B a trained copy takes 24 GB: the joint round has two, and is alone in its process.
        ours = (("joint", "single"),) if size == "0.5b" else (("joint",), ("single",))
        for sharing in ("full", "lora"):
            for names in ours:
                flags = (*model, *timed, "--sharing", sharing, "--contenders", *names)
                made.append(Job(f"{names[0]}-{size}-{sharing}-generate", "throughput", flags, TIMED_MINUTES))
            if not quick:
                flags = (*model, *timed, "--sharing", sharing, "--contenders", "joint", "--vllm_memory", "0.2")
                made.append(Job(f"joint-{size}-{sharing}-vllm", "throughput", flags, TIMED_MINUTES, "vllm"))
        if size == "0.5b" and not quick:  # a mean of a third of the longest, as of the recipes' 1,024 tokens
            flags = (*model, *timed, "--contenders", "joint", "--length", "512", "--mean_length", "175")
            made.append(Job("joint-0.5b-full-generate-tail", "throughput", flags, 8))
            flags = (*flags, "--vllm_memory", "0.2")
            made.append(Job("joint-0.5b-full-vllm-tail", "throughput", flags, TIMED_MINUTES, "vllm"))
        for names in (STOCK[:2], STOCK[2:]):
            flags = (*model, *timed, "--contenders", *names)
            made.append(
                Job(f"stock-{size}{'-conjecturer' if 'conj' in names[0] else ''}", "throughput", flags, TIMED_MINUTES)
            )
    only = ("--only", "tiny, full" if quick else "random 0.5B")
    made.append(Job("memory", "memory", only, 5))
    if not quick:
        made.append(Job("memory-long", "memory", ("--only", "1,024 texts"), 6))
    return made


def run(job: Job, folder: Path) -> str:
    """The outcome in a line; the job's file is there if and only if it went through."""
    if job.needs and find_spec(job.needs) is None:
        return f"left out: {job.needs} is not installed"
    partial = folder / f"{job.name}.part"
    # Stock TRL trainers refuse several GPUs in one process.
    one = {**os.environ, "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0")}
    start = time.monotonic()
    with (folder / f"{job.name}.log").open("w") as log:
        process = subprocess.Popen(
            job.command(partial), stdout=log, stderr=subprocess.STDOUT, env=one, start_new_session=True
        )
        try:
            code: int | str = process.wait(JOB_MINUTES * 60)
        except subprocess.TimeoutExpired:
            code = f"it took more than {JOB_MINUTES:g} minutes"
        finally:  # its own children too, which would keep their GPU memory
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code == 0 and partial.exists():
        partial.replace(folder / f"{job.name}.json")
        return f"done in {time.monotonic() - start:.0f} s"
    lines = (folder / f"{job.name}.log").read_text().strip().splitlines() or ["no output"]
    return f"failed ({code}): {lines[-1][:200]}"


def plan(chosen: list[Job], folder: Path) -> str:
    """What a run of the jobs would do, a job in two lines."""
    lines, minutes = [], 0.0
    for job in chosen:
        absent = job.needs is not None and find_spec(job.needs) is None
        done = (folder / f"{job.name}.json").exists()
        state = "done" if done else f"left out, {job.needs} is not installed" if absent else f"{job.minutes:g} minutes"
        minutes += 0 if done or absent else job.minutes
        measured = OPERATORS if "--operators" in job.flags else MEASURES[job.script]
        lines += [f"{job.name}: {measured} ({state})"]
        lines += [f"    {' '.join(job.command(folder / f'{job.name}.json')[1:])}"]
    return "\n".join([*lines, f"together {minutes:g} minutes on an H100"])


def summary(folder: Path, known: list[Job]) -> str:
    """The figures of all finished jobs as Markdown."""
    found = {job.name: json.loads(path.read_text()) for job in known if (path := folder / f"{job.name}.json").exists()}
    machines = {
        (f["machine"]["device"], f["machine"]["date"]) for f in found.values() if "device" in f.get("machine", {})
    }
    lines = ["# One GPU hour", "", "; ".join(f"{device}, {date}" for device, date in sorted(machines)), ""]
    lines += ["| job | samples/s | completion tokens/s | peak memory, MiB |", "|---|---|---|---|"]
    for name, result in found.items():
        for contender, one in result.get("contenders", {}).items():
            memory = one.get("memory", {})
            peak = memory.get("cuda_peak_mib", memory.get("rss_peak_mib"))
            rates = (interval(one[f"{kind}_per_wall_second"]) for kind in ("samples", "completion_tokens"))
            lines.append(f"| {name}: {contender} | {' | '.join(rates)} | {'' if peak is None else f'{peak:.0f}'} |")
    lines += ["", "| update alone | tokens/s | peak memory, GiB |", "|---|---|---|"]
    for name, result in found.items():
        if "tokens_per_second" in result:
            memory = result["peak_memory_gib"]
            rate = interval(result["tokens_per_second"], ",.0f")
            lines.append(f"| {name} | {rate} | {'' if memory is None else f'{memory:.1f}'} |")
    lines += ["", "| shared prompts / plain | time | memory |", "|---|---|---|"]
    for name, result in found.items():
        if "seconds_shared_to_plain" in result:
            ratios = (interval(result[f"{what}_shared_to_plain"]) for what in ("seconds", "memory_mib"))
            lines.append(f"| {name} | {' | '.join(ratios)} |")
    lines += ["", "| calls of a round | tokens of a text | launches | waits | reads | copies |", f"|{'---|' * 6}"]
    for name, result in found.items():
        if one := result.get("operators"):
            calls = (f"{one['calls_per_step'][kind]:,.0f}" for kind in ("launches", "waits", "reads", "copies"))
            lines.append(f"| {name} | {one['length']} | {' | '.join(calls)} |")
    lines += ["", "| peak memory, GiB | sampling | dry run | training | dry run |", "|---|---|---|---|---|"]
    for cell, one in (pair for result in found.values() for pair in result.get("cells", {}).items()):
        kinds = [one[kind] for kind in ("measured", "estimated") if kind in one]
        halves = (f"{kind[half]:.2f}" for half in ("sampling", "training") for kind in kinds)
        lines.append(f"| {cell} | {one.get('failed') or ' | '.join(halves)} |")
    return "\n".join(lines) + "\n"


def interval(found: dict[str, Any], form: str = ".2f") -> str:
    low, high = found["interval"]
    return f"{found['median']:{form}} [{low:{form}}, {high:{form}}]"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument(
        "--folder", type=Path, default=Path("gpu_hour"), help="of the figures; a later call goes on there"
    )
    made.add_argument("--minutes", type=float, default=10.0, help="no job is started that would end later than this")
    made.add_argument("--only", help="jobs whose name contains this")
    made.add_argument("--tokenizer", help="folder or id of a tokenizer with a chat template: chat prompts")
    made.add_argument("--dry_run", action="store_true", help="print what each job measures, and run nothing")
    made.add_argument("--quick", action="store_true", help="small shapes, to see that everything runs; needs no GPU")
    return made


def main() -> int:
    import torch

    options = parser().parse_args()
    known = jobs(options.quick, options.tokenizer, find_spec("flash_attn") is not None)
    chosen = [job for job in known if (options.only or "") in job.name]
    if not chosen:
        parser().error(f"--only {options.only}: no job has this in its name; jobs: {', '.join(j.name for j in known)}")
    if options.dry_run:
        print(plan(chosen, options.folder))
        return 0
    if not (options.quick or torch.cuda.is_available()):
        parser().error(
            "no GPU is visible; --quick runs the same jobs with small shapes on a CPU, --dry_run prints them"
        )
    options.folder.mkdir(parents=True, exist_ok=True)
    start, failed, left = time.monotonic(), 0, []
    for job in chosen:
        if (options.folder / f"{job.name}.json").exists():
            continue
        if time.monotonic() - start + 60 * job.minutes > 60 * options.minutes and not options.quick:
            left.append(job.name)
            continue
        outcome = run(job, options.folder)
        failed += outcome.startswith("failed")
        print(f"{job.name}: {outcome}", flush=True)
        (options.folder / "gpu_hour.md").write_text(summary(options.folder, known))
    print(f"{options.folder / 'gpu_hour.md'}" + (f"; left for the next call: {', '.join(left)}" if left else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
