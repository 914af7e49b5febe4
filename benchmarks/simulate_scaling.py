"""How long a round takes on how many GPUs, what bounds it, and what a million samples cost: an analytic model.

    python benchmarks/simulate_scaling.py                         # the tables of docs/scaling.md
    python benchmarks/simulate_scaling.py --update docs/scaling.md
    python benchmarks/simulate_scaling.py --check docs/benchmarks/two_processes.json
    python benchmarks/simulate_scaling.py --gpu h200 --train_mfu 0.2 --step_overhead 0.02

A round is sampling by the conjecturer, then by the prover, then checks, the update, and the synchronisation of
gradients and of the samplers' weights; on-policy, none of these overlaps another. Host seconds per sample come from a
measured run (docs/benchmarks/throughput_tiny.json), figures of GPUs and networks from public data sheets (their names
stand beside them), and the efficiencies in `Efficiency` are assumptions, each with its ground, until a run on a GPU
replaces them.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MEASURED = ROOT / "docs" / "benchmarks" / "throughput_tiny.json"
TWO_PROCESSES = ROOT / "docs" / "benchmarks" / "two_processes.json"
GB, TERA = 1e9, 1e12


@dataclass(frozen=True)
class Gpu:
    """flops: dense bf16 per second. bandwidth, link, network: bytes per second of its memory, to its neighbours in the
    node, and to other nodes (one direction each). price: assumed, currency units per hour; see --price."""

    name: str
    flops: float
    memory: float
    bandwidth: float
    link: float
    network: float
    per_node: int = 8
    price: float = 3.0


GPUS = {
    # NVIDIA H100 Tensor Core GPU data sheet (SXM5): 1,979 bf16 TFLOPS with sparsity, half of it dense; 80 GB; 3.35
    # TB/s; NVLink 900 GB/s both directions. DGX H100 data sheet: one 400 Gb/s ConnectX-7 port per GPU.
    "h100": Gpu("H100 SXM", 989 * TERA, 80 * GB, 3350 * GB, 450 * GB, 50 * GB),
    # NVIDIA H200 data sheet: as the H100, with 141 GB at 4.8 TB/s.
    "h200": Gpu("H200", 989 * TERA, 141 * GB, 4800 * GB, 450 * GB, 50 * GB),
    # NVIDIA A100 data sheet (80 GB SXM): 312 TFLOPS; 2,039 GB/s; NVLink 600 GB/s. DGX A100: 200 Gb/s per GPU.
    "a100": Gpu("A100 SXM", 312 * TERA, 80 * GB, 2039 * GB, 300 * GB, 25 * GB),
}


@dataclass(frozen=True)
class Model:
    """parameters; layers, key-value heads and their size, for the cache."""

    name: str
    parameters: float
    layers: int
    kv_heads: int
    head_size: int

    @property
    def cache_bytes(self) -> float:
        """Of one token, in bf16."""
        return 2 * self.layers * self.kv_heads * self.head_size * 2


# From the models' own config.json.
MODELS = {
    "SmolLM2-135M": Model("SmolLM2-135M", 0.135e9, 30, 3, 64),
    "Qwen2.5-0.5B": Model("Qwen2.5-0.5B", 0.494e9, 24, 2, 64),
    "Qwen2.5-1.5B": Model("Qwen2.5-1.5B", 1.54e9, 28, 2, 128),
    "Qwen2.5-7B": Model("Qwen2.5-7B", 7.62e9, 28, 4, 128),
    "Qwen2.5-32B": Model("Qwen2.5-32B", 32.8e9, 64, 8, 128),
}


@dataclass(frozen=True)
class Efficiency:
    """train_mfu: share of the peak that forward and backward reach. prime-rl's published trainer runs reach 0.11 at
    0.6B and 0.14 at 4B on H100s, 0.29 at 7B with LoRA: 0.15 stands for all. prefill: the same for reading prompts.
    memory: share of the memory's and the links' bandwidth that is reached. *_overhead: seconds per decoded token
    besides memory and arithmetic; eager `generate` launches each layer's kernels from Python, vLLM replays CUDA
    graphs. push: seconds of a push of weights besides the copy. latency: of one collective. variation: of sampling
    time between processes, standard deviation over mean. All but train_mfu are assumed, not measured."""

    train_mfu: float = 0.15
    prefill: float = 0.4
    memory: float = 0.7
    hf_layer_overhead: float = 1e-3
    vllm_step_overhead: float = 4e-3
    push: float = 0.1
    latency: float = 2e-5
    variation: float = 0.03
    step_overhead: float | None = None  # measured: replaces both


@dataclass(frozen=True)
class Round:
    """Samples of the whole round, and tokens: of a prompt, of a mean completion, of the longest."""

    answers: int = 4096
    proposals: int = 1024
    group: int = 8
    prompt: int = 160
    mean: int = 250
    longest: int = 512
    micro_batch: int = 16


@dataclass(frozen=True)
class Host:
    """Seconds of host work per sample. own: divided over the processes (tokenising, padding, verifying). shared: done
    by every process on the gathered records of all (admission, health)."""

    own: float
    shared: float


def measured_host(file: Path = MEASURED) -> Host:
    """From the joint round of throughput.py's JSON, in CPU seconds."""
    joint = json.loads(file.read_text())["contenders"]["joint"]
    phases = joint["phases_cpu"]
    own = phases.get("other", 0.0) + phases.get("verify", 0.0) + phases.get("solve", 0.0)
    return Host(own / joint["samples"], phases.get("bookkeeping", 0.0) / joint["samples"])


def all_reduce(size: float, gpus: int, gpu: Gpu, e: Efficiency) -> float:
    """Ring within the node, then between nodes, each GPU with its part: 2 (n - 1) / n x bytes / bandwidth a level."""
    if gpus == 1:
        return 0.0
    inside = min(gpus, gpu.per_node)
    nodes = math.ceil(gpus / gpu.per_node)
    seconds = 2 * (inside - 1) / inside * size / (gpu.link * e.memory)
    seconds += 2 * (nodes - 1) / nodes * (size / inside) / (gpu.network * e.memory)
    return seconds + 2 * e.latency * math.log2(gpus)


def split(model: Model, gpu: Gpu) -> int:
    """GPUs that share one copy of vLLM's weights (tensor parallel), so that a copy takes at most 0.4 of a GPU; 0 if no
    node can."""
    sizes = [2**i for i in range(gpu.per_node.bit_length()) if 2 * model.parameters / 2**i <= 0.4 * gpu.memory]
    return sizes[0] if sizes else 0


def decode(model: Model, batch: float, steps: int, context: float, gpu: Gpu, e: Efficiency, engine: str) -> float:
    """`steps` tokens for `batch` rows per GPU: per step the weights and the cache are read once, or the arithmetic
    bounds it. GPUs that share a copy read a part of it each, and meet twice per layer."""
    shared = split(model, gpu) if engine == "vllm" else 1
    weights = 2 * model.parameters / shared if engine == "vllm" else 4 * model.parameters  # float32 under autocast
    read = (weights + model.cache_bytes * batch * context) / (gpu.bandwidth * e.memory)
    arithmetic = 2 * model.parameters * batch / (gpu.flops * e.prefill)
    overhead = e.vllm_step_overhead if engine == "vllm" else e.hf_layer_overhead * model.layers
    meetings = 2 * model.layers * e.latency if shared > 1 else 0.0
    return steps * (max(read, arithmetic) + meetings + (overhead if e.step_overhead is None else e.step_overhead))


def sampling(model: Model, samples: int, prompts: int, r: Round, gpu: Gpu, e: Efficiency, engine: str) -> float:
    """One role's sampling on one GPU. `generate` decodes finished rows on to the longest; vLLM drops them."""
    rows = samples if engine == "hf" else samples * r.mean / r.longest
    prefill = 2 * model.parameters * prompts * r.prompt / (gpu.flops * e.prefill)
    return prefill + decode(model, rows, r.longest, r.prompt + r.mean / 2, gpu, e, engine)


def strategy(model: Model, gpus: int, gpu: Gpu, engine: str, roles: int = 2) -> str | None:
    """ddp if both roles' float32 weights, gradients and moments fit beside the sampler's copy; else sharded; else
    None."""
    shared = split(model, gpu)
    if engine == "vllm" and not 0 < shared <= gpus:
        return None
    copy = 2 * model.parameters / shared if engine == "vllm" else 0.0
    if 16 * roles * model.parameters + copy <= 0.8 * gpu.memory:
        return "ddp"
    return "sharded" if 16 * roles * model.parameters / gpus + copy <= 0.8 * gpu.memory else None


def simulate(
    model: Model, gpus: int, gpu: Gpu, e: Efficiency, r: Round, host: Host, engine: str = "vllm", roles: int = 2
) -> dict[str, Any] | None:
    """Seconds per part of a round on `gpus` GPUs that all sample and all train; None if it does not fit."""
    kind = strategy(model, gpus, gpu, engine, roles)
    if kind is None:
        return None
    answers, proposals = math.ceil(r.answers / gpus), math.ceil(r.proposals / gpus)
    tokens = (answers + proposals) * (r.prompt + r.mean)
    micro = math.ceil((answers + proposals) / r.micro_batch)
    size = 4.0 * model.parameters
    waiting = 1 + (e.variation * math.sqrt(2 * math.log(gpus)) if gpus > 1 else 0.0)  # for the slowest of the GPUs
    parts = {
        "sample conjecturer": waiting * sampling(model, proposals, 1, r, gpu, e, engine),
        "sample prover": waiting * sampling(model, answers, math.ceil(answers / r.group), r, gpu, e, engine),
        "host": host.own * (answers + proposals) + host.shared * (r.answers + r.proposals),
        "update": 8 * model.parameters * tokens / (gpu.flops * e.train_mfu)  # 6 N, and 2 N recomputed
        + 28 * roles * model.parameters / (gpus if kind == "sharded" else 1) / (gpu.bandwidth * e.memory),
        "gradients": roles * all_reduce(size, gpus, gpu, e),
    }
    if kind == "sharded":  # two gathers and one scatter of bf16 weights per micro-batch, half an all-reduce each
        parts["gradients"] = 1.5 * micro * all_reduce(size / 2, gpus, gpu, e)
    if engine == "vllm":  # weights are pushed at every change of role
        gathered = all_reduce(size / 2, gpus, gpu, e) / 2 if kind == "sharded" else 0.0
        parts["push weights"] = roles * (e.push + 2 * model.parameters / (gpu.bandwidth * e.memory) + gathered)
    seconds = sum(parts.values())
    samples = r.answers + r.proposals
    return {
        "parts": parts, "seconds": seconds, "strategy": kind, "samples_per_second": samples / seconds,
        "gpu_hours_per_million": gpus * seconds / samples * 1e6 / 3600, "bound": max(parts, key=lambda p: parts[p]),
    }  # fmt: skip


def role_server(
    model: Model, gpus: int, servers: int, gpu: Gpu, e: Efficiency, r: Round, host: Host
) -> dict[str, float] | None:
    """`servers` of `gpus` only sample for the conjecturer, and sample the next round's proposals while the others
    update: a proposal is then one update old (the trainer does not do this). Samples per second of it, and without."""
    together = simulate(model, gpus, gpu, e, r, host)
    rest = simulate(model, gpus - servers, gpu, e, r, host)
    if together is None or rest is None:
        return None
    hidden = sampling(model, math.ceil(r.proposals / servers), 1, r, gpu, e, "vllm")
    hidden += e.push + 2 * model.parameters / (gpu.network * e.memory)
    seconds = rest["seconds"] - rest["parts"]["sample conjecturer"] - rest["parts"]["push weights"] / 2
    beside = rest["parts"]["update"] + rest["parts"]["gradients"]
    seconds += max(0.0, hidden - beside)
    return {"together": together["seconds"], "apart": seconds, "gain": together["seconds"] / seconds}


# -- the check --------------------------------------------------------------------------------------------------------

SEGMENTS = (
    ("generate",),
    ("verify", "solve", "bookkeeping", "other"),
    ("log-probs", "forward", "backward", "optimizer"),
)


def segments(rounds: list[dict[str, Any]]) -> list[list[float]]:
    """Per segment between two meetings of the processes, its seconds in each round."""
    found = []
    for names in SEGMENTS:
        found.append([sum(r["phases"].get(name, 0.0) for name in names) for r in rounds])
    rest = [r["wall"] - sum(values) for r, values in zip(rounds, zip(*found, strict=True), strict=True)]
    found[1] = [a + b for a, b in zip(found[1], rest, strict=True)]
    return found


def predicted_round(
    alone: list[list[dict[str, Any]]], communication: dict[str, Any], gradient_bytes: float, calls: dict[str, float]
) -> float:
    """Each segment lasts as long as the slower of two processes (all pairs of measured rounds), then the all-reduce of
    the gradients, and the gathers and reduces of metrics at the latency of the smallest all-reduce. Figures taken
    before reduces were counted have none."""
    first, second = (segments(rounds) for rounds in alone)
    seconds = sum(statistics.mean(max(a, b) for a in x for b in y) for x, y in zip(first, second, strict=True))
    known = sorted((float(size), t) for size, t in communication["all_reduce"].items())
    seconds += interpolated(known, gradient_bytes)
    small = calls["gather"] + calls.get("reduce", 0.0)
    return seconds + small * known[0][1] + calls["gather_object"] * communication["gather_object"]


def interpolated(known: list[tuple[float, float]], size: float) -> float:
    """Linear between measured sizes, and on from the last two."""
    pairs = list(pairwise(known))
    (a, t), (b, u) = next((pair for pair in pairs if size <= pair[1][0]), pairs[-1])
    return t + (u - t) * (size - a) / (b - a)


def check(result: dict[str, Any]) -> list[dict[str, float]]:
    """Per turn: predicted and measured mean seconds of a DDP round, and that of the processes alone."""
    found = []
    for turn in result["turns"]:
        ddp = turn["ddp"]
        measured = statistics.mean(r["wall"] for rank in ddp for r in rank["rounds"])
        alone = [rank["rounds"] for rank in turn["alone"]]
        predicted = predicted_round(
            alone, ddp[0]["communication"], ddp[0]["gradient_bytes"], ddp[0]["calls_per_round"]
        )
        unsynchronised = statistics.mean(r["wall"] for rank in alone for r in rank)
        found.append({"alone": unsynchronised, "predicted": predicted, "measured": measured})
    return found


def check_text(result: dict[str, Any]) -> str:
    rows = check(result)
    lines = ["| turn | alone, ms | predicted DDP, ms | measured DDP, ms | error |", "|---|---|---|---|---|"]
    for i, row in enumerate(rows):
        error = row["predicted"] / row["measured"] - 1
        times = " | ".join(f"{row[name] * 1000:.0f}" for name in ("alone", "predicted", "measured"))
        lines.append(f"| {i + 1} | {times} | {error:+.0%} |")
    mean = statistics.mean(row["predicted"] for row in rows) / statistics.mean(row["measured"] for row in rows) - 1
    return "\n".join([*lines, f"| all | | | | {mean:+.0%} |"])


# -- the tables -------------------------------------------------------------------------------------------------------


def round_table(gpu: Gpu, e: Efficiency, r: Round, host: Host) -> str:
    head = ["model", "GPUs", "weights", "conjecturer", "prover", "host", "update", "gradients", "push", "round, s"]
    lines = ["| " + " | ".join([*head, "bound by"]) + " |", "|---" * (len(head) + 1) + "|"]
    for model in MODELS.values():
        for gpus in (1, 8, 64, 512):
            found = simulate(model, gpus, gpu, e, r, host)
            if found is None:
                lines.append(f"| {model.name} | {gpus} | does not fit |" + " |" * 8)
                continue
            shares = [f"{100 * found['parts'][name] / found['seconds']:.0f}%" for name in found["parts"]]
            cells = [model.name, str(gpus), found["strategy"], *shares, f"{found['seconds']:.1f}", found["bound"]]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cost_table(gpu: Gpu, e: Efficiency, r: Round, host: Host) -> str:
    head = [
        "model",
        "GPUs",
        "samples/s",
        "GPU-hours per million samples",
        f"at {gpu.price:g} per GPU-hour",
        "efficiency",
    ]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for model in MODELS.values():
        fits = [(n, f) for n in (1, 8, 64, 512) if (f := simulate(model, n, gpu, e, r, host))]
        for gpus, found in fits:
            hours = found["gpu_hours_per_million"]
            share = fits[0][1]["gpu_hours_per_million"] / hours
            cells = [
                model.name,
                gpus,
                f"{found['samples_per_second']:,.0f}",
                f"{hours:.2f}",
                f"{hours * gpu.price:.1f}",
            ]
            lines.append("| " + " | ".join(map(str, [*cells, f"{share:.0%}"])) + " |")
    return "\n".join(lines)


def engine_table(gpu: Gpu, e: Efficiency, r: Round, host: Host) -> str:
    lines = ["| model | GPUs | generate, s | vLLM, s | vLLM is faster by |", "|---|---|---|---|---|"]
    for model in MODELS.values():
        for gpus in (1, 8, 64):
            both = [simulate(model, gpus, gpu, e, r, host, engine) for engine in ("hf", "vllm")]
            if both[0] and both[1]:
                plain, fast = both[0]["seconds"], both[1]["seconds"]
                lines.append(f"| {model.name} | {gpus} | {plain:.1f} | {fast:.1f} | {plain / fast:.1f} |")
    return "\n".join(lines)


def server_table(gpu: Gpu, e: Efficiency, r: Round, host: Host) -> str:
    lines = [
        "| model | GPUs | of them for the conjecturer | one pool, s | apart, s | gain |",
        "|---|---|---|---|---|---|",
    ]
    for model in MODELS.values():
        for gpus, servers in ((8, 1), (64, 8), (512, 64)):
            found = role_server(model, gpus, servers, gpu, e, r, host)
            if found:
                cells = [gpus, servers, f"{found['together']:.1f}", f"{found['apart']:.1f}", f"{found['gain']:.2f}"]
                lines.append("| " + " | ".join([model.name, *map(str, cells)]) + " |")
    return "\n".join(lines)


def tables(gpu: Gpu, e: Efficiency, r: Round, host: Host) -> dict[str, str]:
    found = {
        "round": round_table(gpu, e, r, host), "cost": cost_table(gpu, e, r, host),
        "engine": engine_table(gpu, e, r, host), "server": server_table(gpu, e, r, host),
    }  # fmt: skip
    if TWO_PROCESSES.exists():
        found["check"] = check_text(json.loads(TWO_PROCESSES.read_text()))
    return found


def updated(page: str, found: dict[str, str]) -> str:
    """The page with each table put between its markers."""
    for name, text in found.items():
        page = re.sub(
            rf"(<!-- table:{name} -->\n).*?(<!-- /table:{name} -->)", rf"\g<1>{text}\n\g<2>", page, flags=re.S
        )
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description="Round times, bounds and costs on many GPUs.")
    parser.add_argument("--gpu", choices=GPUS, default="h100")
    parser.add_argument("--price", type=float, help="currency units per GPU-hour")
    parser.add_argument("--train_mfu", type=float, help="measured share of the peak in forward and backward")
    parser.add_argument("--step_overhead", type=float, help="measured seconds per decoded token besides memory")
    parser.add_argument("--update", type=Path, help="write the tables into this page")
    parser.add_argument("--check", type=Path, help="two_processes.py's JSON: predicted against measured")
    options = parser.parse_args()
    if options.check:
        print(check_text(json.loads(options.check.read_text())))
        return
    gpu = GPUS[options.gpu] if options.price is None else replace(GPUS[options.gpu], price=options.price)
    given = {name: getattr(options, name) for name in ("train_mfu", "step_overhead")}
    e = replace(Efficiency(), **{name: value for name, value in given.items() if value is not None})
    found = tables(gpu, e, Round(), measured_host())
    if options.update:
        options.update.write_text(updated(options.update.read_text(), found))
        return
    print("\n\n".join(f"{name}\n\n{text}" for name, text in found.items()))


if __name__ == "__main__":
    main()
