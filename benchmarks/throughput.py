"""Samples/s, tokens/s, peak memory and time per phase of our joint round, our single-policy run and stock TRL's RLOO
and GRPO trainers on the same model, batch and lengths.

    python benchmarks/throughput.py                                  # the tiny model, two minutes on one core
    python benchmarks/throughput.py --model smollm2-135m --model_path FOLDER --steps 3
    python benchmarks/throughput.py --model qwen2.5-0.5b --tokenizer tiny --prompts compact --steps 2
    python benchmarks/throughput.py --flat 500                       # time and memory per round over 500 rounds
    python benchmarks/throughput.py --operators joint --steps 40     # where a step's time goes, by torch.profiler
    python benchmarks/throughput.py --model qwen2.5-0.5b --tokenizer tiny --length 512 --mean_length 175  # a tail

The contenders take turns, one optimizer step each, in one process and in an order that rotates, so that whatever
else the machine does hits all of them alike. Ratios are taken turn by turn: least, median and most over the turns, and
a 95% bootstrap interval of the median, in wall time and in the process's CPU time. With `--memory` each contender runs
once more in a process of its own, whose peak is its own. On a GPU everything runs in bf16, totals and phases are taken
in different turns, and memory is what the allocator peaked at. docs/throughput.md says what is the same for all
contenders and what is not.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from contenders import NAMES, TOKENIZER, Setting, build, prepare_model
from pacing import Paced
from results import machine, spread, write_json

MODELS = ("tiny", "smollm2-135m", "qwen2.5-0.5b", "qwen2.5-1.5b", "qwen3-0.6b")
# Per model: samples in a micro-batch, the prover's and the conjecturer's micro-batches, answers per problem, tokens.
DEFAULTS = {"tiny": (64, 2, 1, 8, 16), "smollm2-135m": (4, 2, 1, 4, 24), "qwen2.5-0.5b": (4, 2, 1, 4, 16)}
ON_GPU = (64, 2, 1, 8, 256)
CHECKS = ("verify", "solve", "bookkeeping")


def take_turns(setting: Setting, names: list[str], steps: int, warmup: int) -> dict[str, list[dict[str, Any]]]:
    """Per contender one record per timed step: wall and CPU seconds, phases, tokens."""
    records: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    gpu = torch.cuda.is_available()
    with tempfile.TemporaryDirectory() as folder:
        built = {name: build(name, setting, folder) for name in names}
        paced = {name: Paced(trainer) for name, (trainer, _, _) in built.items()}
        for i in range(setting.steps):
            for name in names[i % len(names) :] + names[: i % len(names)]:
                _, phases, counts = built[name]
                phases.on = not gpu or i % 2 == 1
                phases.pop()
                counts.clear()
                wall, cpu = paced[name].step()
                in_wall, in_cpu = phases.pop()
                if i >= warmup:
                    records[name].append(
                        {
                            "wall": wall, "cpu": cpu, "phases_wall": in_wall, "phases_cpu": in_cpu,
                            "prompt_tokens": sum(c[0] for c in counts), "completion_tokens": sum(c[1] for c in counts),
                            "profiled": phases.on,
                        }
                    )  # fmt: skip
        for runner in paced.values():
            runner.join()
    return records


def totals(record: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The turns that totals are taken from: on a GPU those without the waits that phases need."""
    plain = [r for r in record if not r["profiled"]]
    return plain or record


def summary(name: str, setting: Setting, records: list[dict[str, Any]]) -> dict[str, Any]:
    micro = setting.conjecturer if name.endswith("_conjecturer") else setting.prover
    samples = setting.batch * (micro + (setting.conjecturer if name == "joint" else 0))
    taken = totals(records)
    profiled = [r for r in records if r["profiled"]]
    found: dict[str, Any] = {"samples": samples}
    for clock in ("wall", "cpu"):
        found[f"{clock}_seconds"] = spread([r[clock] for r in taken])
        found[f"samples_per_{clock}_second"] = spread([samples / r[clock] for r in taken])
        found[f"completion_tokens_per_{clock}_second"] = spread([r["completion_tokens"] / r[clock] for r in taken])
        names = sorted({phase for r in profiled for phase in r[f"phases_{clock}"]})
        phases = {n: [r[f"phases_{clock}"].get(n, 0.0) for r in profiled] for n in names if n != "other"}
        sums = [sum(values) for values in zip(*phases.values(), strict=True)]
        phases["other"] = [r[clock] - s for r, s in zip(profiled, sums, strict=True)]
        found[f"phases_{clock}"] = {n: statistics.median(values) for n, values in phases.items()}
        checks = [sum(r[f"phases_{clock}"].get(n, 0.0) for n in CHECKS) / r[clock] for r in profiled]
        found[f"verify_solve_bookkeeping_share_{clock}"] = spread(checks)
    for kind in ("prompt_tokens", "completion_tokens"):
        found[kind] = statistics.mean(r[kind] for r in records)
    return found


def ratios(records: dict[str, list[dict[str, Any]]], clock: str) -> dict[str, Any]:
    """Turn by turn. Samples/s of ours over stock; the joint round's time over that of its two stock parts."""
    taken = {name: totals(record) for name, record in records.items()}
    found = {}
    for stock in ("trl_rloo", "trl_grpo"):
        if {"single", stock} <= set(taken):
            pairs = zip(taken["single"], taken[stock], strict=True)
            found[f"single / {stock} (samples/s)"] = spread([s[clock] / o[clock] for o, s in pairs])
        proposing = f"{stock}_conjecturer"
        if {"joint", stock, proposing} <= set(taken):
            triples = zip(taken["joint"], taken[stock], taken[proposing], strict=True)
            found[f"joint / ({stock} + {proposing}) (time)"] = spread(
                [j[clock] / (p[clock] + c[clock]) for j, p, c in triples]
            )
    return found


def peak_memory(name: str, argv: list[str]) -> dict[str, float]:
    """MiB at the peak of three steps in a process of its own, and before anything was loaded. SystemExit with its last
    line if it fails."""
    command = [sys.executable, __file__, *argv, "--memory_of", name]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"--memory, {name}: {(done.stderr.strip().splitlines() or ['no output'])[-1][:300]}")
    return json.loads(done.stdout.splitlines()[-1])


class _Profiled(transformers.TrainerCallback):
    def __init__(self, profile: torch.profiler.profile) -> None:
        self.profile = profile

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.profile.step()


CALLS = {
    "launches": ("cudaLaunchKernel", "cuLaunchKernel"), "waits": ("cudaStreamSynchronize", "cudaDeviceSynchronize"),
    "reads": ("aten::_local_scalar_dense",), "copies": ("aten::copy_",),
}  # fmt: skip
"""Name of a count -> beginnings of the profiler's names for its calls; launches and waits are those of a GPU's driver,
reads those of one number (`.item()`)."""


def operators(name: str, setting: Setting, warmup: int) -> dict[str, Any]:
    """torch.profiler's table of a contender's steps after `warmup` ones, the operators that take the most time
    themselves, and the calls of a step."""
    steps = setting.steps - warmup
    plan = torch.profiler.schedule(wait=max(warmup - 1, 0), warmup=min(warmup, 1), active=steps, repeat=1)
    with tempfile.TemporaryDirectory() as folder, torch.profiler.profile(schedule=plan) as profile:
        trainer, phases, _ = build(name, setting, folder)
        phases.on = False
        trainer.add_callback(_Profiled(profile))
        trainer.train()
    found = profile.key_averages()
    calls = {kind: sum(o.count for o in found if o.key.startswith(names)) / steps for kind, names in CALLS.items()}
    order = "self_device_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
    table = found.table(sort_by=order, row_limit=25, max_name_column_width=60)
    return {"contender": name, "length": setting.length, "calls_per_step": calls, "table": str(table)}


def peak_rss() -> float:
    """MiB; Linux."""
    line = next(x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def memory_of(name: str, setting: Setting) -> None:
    Path("/proc/self/clear_refs").write_text("5")  # a child starts with its parent's peak
    start = peak_rss()
    with tempfile.TemporaryDirectory() as folder:
        trainer, phases, _ = build(name, setting, folder)
        phases.on = False
        trainer.train()
    found = {"rss_before_mib": start, "rss_peak_mib": peak_rss()}
    if torch.cuda.is_available():
        found["cuda_peak_mib"] = torch.cuda.max_memory_allocated() / 2**20
    print(json.dumps(found))


def table(result: dict[str, Any]) -> str:
    """The figures as Markdown: CPU time where there is no GPU, for it does not count what else the machine does."""
    clock = result["clock"]
    names = list(result["contenders"])
    phases = list(dict.fromkeys(p for n in names for p in result["contenders"][n][f"phases_{clock}"]))
    rows = [["", *names], ["---"] * (len(names) + 1)]

    def row(title: str, key: str, scale: float = 1.0, digits: int = 1) -> None:
        values = [result["contenders"][n][key]["median"] * scale for n in names]
        rows.append([title, *(f"{v:.{digits}f}" for v in values)])

    row("step, ms", f"{clock}_seconds", 1000)
    row("samples/s", f"samples_per_{clock}_second")
    row("completion tokens/s", f"completion_tokens_per_{clock}_second")
    for phase in phases:
        parts = [result["contenders"][n][f"phases_{clock}"].get(phase) for n in names]
        rows.append([f"{phase}, ms", *("" if p is None else f"{p * 1000:.1f}" for p in parts)])
    row("verify + solve + bookkeeping, %", f"verify_solve_bookkeeping_share_{clock}", 100, 2)
    if all("memory" in result["contenders"][n] for n in names):
        key = "cuda_peak_mib" if torch.cuda.is_available() else "rss_peak_mib"
        rows.append(["peak memory, MiB", *(f"{result['contenders'][n]['memory'][key]:.0f}" for n in names)])
    lines = ["| " + " | ".join(r) + " |" for r in rows]
    for title, value in result["ratios"][clock].items():
        low, high = value["interval"]
        lines.append(
            f"\n{title}: {value['median']:.3f} [{low:.3f}, {high:.3f}], from {value['min']:.3f} to {value['max']:.3f}"
        )
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description="Throughput of joint, single-policy and stock TRL training.")
    made.add_argument("--model", choices=MODELS, default="tiny")
    made.add_argument("--model_path", help="folder or id of the model; default: the hub's, or random weights")
    made.add_argument("--tokenizer", default=TOKENIZER, help="for random weights: folder, id, or tiny (no hub needed)")
    made.add_argument("--contenders", nargs="+", choices=NAMES, default=list(NAMES))
    made.add_argument("--steps", type=int, default=20, help="timed optimizer steps of each contender")
    made.add_argument("--warmup", type=int, default=2, help="steps before timing starts")
    made.add_argument("--batch", type=int, help="samples in a micro-batch")
    made.add_argument("--prover", type=int, help="micro-batches of the prover")
    made.add_argument("--conjecturer", type=int, help="micro-batches of the conjecturer")
    made.add_argument("--group", type=int, help="answers per problem")
    made.add_argument("--length", type=int, help="most tokens of a completion")
    made.add_argument("--mean_length", type=int, help="random weights: mean tokens of a completion, with a tail")
    made.add_argument("--reward", choices=("dense", "countdown"), default="dense")
    made.add_argument("--prompts", choices=("compact", "chat"), help="default: chat on a GPU, but for the tiny model")
    made.add_argument("--sharing", choices=("full", "lora", "tied"), default="full")
    made.add_argument("--gradient_checkpointing", action="store_true")
    made.add_argument("--attention", help="attn_implementation, such as flash_attention_2")
    made.add_argument("--optim", default="adamw_torch_fused", help="sgd where memory is short: no moments are kept")
    made.add_argument(
        "--vllm_memory", type=float, help="share of the GPU's memory for each contender's own vLLM engine"
    )
    made.add_argument("--memory", action="store_true", help="measure peak memory, each contender in its own process")
    made.add_argument(
        "--flat", type=int, metavar="ROUNDS", help="slope of time and memory over this many joint rounds"
    )
    made.add_argument("--operators", choices=NAMES, help="the operators that this contender's steps consist of")
    made.add_argument("--quick", action="store_true", help="two small steps of each, to see that everything runs")
    made.add_argument("--output", type=Path, help="JSON file for all figures")
    made.add_argument("--memory_of", choices=NAMES, help=argparse.SUPPRESS)
    return made


def refusal(options: argparse.Namespace, gpu: bool) -> str | None:
    """Why these options cannot be measured, or None."""
    least = 2 if gpu and not options.operators else 1
    if options.steps < least:
        why = ": on a GPU totals and phases are taken in different turns" if gpu else ""
        return f"--steps ({options.steps}) must be at least {least}{why}"
    if options.warmup < 0:
        return f"--warmup ({options.warmup}) must be at least 0"
    known = options.model_path or options.model in MODELS[:2]
    if options.mean_length is not None and (options.mean_length < 1 or known):
        return f"--mean_length ({options.mean_length}) must be at least 1, and --model a shape with random weights"
    if options.tokenizer == "tiny" and options.prompts != "compact" and gpu:
        return "--tokenizer tiny has no chat template and needs --prompts compact"
    return None


def main() -> None:
    options = parser().parse_args()
    wrong = refusal(options, torch.cuda.is_available())
    if wrong:
        parser().error(wrong)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    shape = ON_GPU if torch.cuda.is_available() and options.model != "tiny" else DEFAULTS.get(options.model, ON_GPU)
    if options.quick:
        shape, options.steps, options.warmup = (8, 1, 1, 4, 8), 2, 1
    prompts = options.prompts or ("chat" if torch.cuda.is_available() and options.model != "tiny" else "compact")
    given = (options.batch, options.prover, options.conjecturer, options.group, options.length)
    batch, prover, conjecturer, group, length = (g or s for g, s in zip(given, shape, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        steps = 3 if options.memory_of else options.flat or options.steps + options.warmup
        model = options.model, options.model_path, options.tokenizer, Path(folder), options.mean_length
        setting = Setting(
            options.model, prepare_model(*model), batch, prover, conjecturer, group, length, steps,
            options.reward == "dense", options.gradient_checkpointing, options.sharing, options.vllm_memory,
            options.attention, options.optim, prompts == "compact",
        )  # fmt: skip
        if options.memory_of:
            memory_of(options.memory_of, setting)
            return
        if options.operators:
            found = operators(options.operators, setting, options.warmup)
            print(found["table"], found["calls_per_step"], sep="\n")
            write_json(options.output, {"machine": machine(), "setting": vars(setting), "operators": found})
            return
        result: dict[str, Any] = {"machine": machine(), "setting": vars(setting) | {"folder": setting.model}}
        if options.flat:
            from flatness import measure_flatness

            result["flat"] = measure_flatness(setting)
            print(result["flat"]["text"])
        else:
            # First, while this process holds nothing of the GPU.
            peaks = {n: peak_memory(n, sys.argv[1:]) for n in options.contenders} if options.memory else {}
            records = take_turns(setting, options.contenders, options.steps, options.warmup)
            result["clock"] = "wall" if torch.cuda.is_available() else "cpu"
            result["contenders"] = {n: summary(n, setting, r) for n, r in records.items()}
            result["ratios"] = {clock: ratios(records, clock) for clock in ("wall", "cpu")}
            result["steps"] = records
            for name, peak in peaks.items():
                result["contenders"][name]["memory"] = peak
            print(table(result))
        write_json(options.output, result)


if __name__ == "__main__":
    main()
