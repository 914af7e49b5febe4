"""`countdown-selfplay env`: print versions, device, cores, memory and extras, for a bug report."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
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
    "notebook": "jupyter",
    "test": "pytest",
    "docs": "mkdocs-material",
}
"""Extra of pyproject.toml -> the distribution that tells whether it is installed."""


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
    """Return name and memory of each accelerator that torch sees; ["cpu"] without one, [] without torch."""
    if version("torch") is None:
        return []
    import torch

    if torch.cuda.is_available():
        found = [torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())]
        return [f"{device.name} ({device.total_memory / 2**30:.0f} GiB)" for device in found]
    return ["mps" if torch.backends.mps.is_available() else "cpu"]


def environment() -> dict[str, Any]:
    """Collect everything that is printed, as plain JSON values."""
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
    """Format one aligned line per fact."""
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


def main(argv: list[str]) -> int:
    """Print the environment as text or, with --json, as one JSON object."""
    parser = parser_of("env", "")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    as_json = parser.parse_args(argv).json
    info = environment()
    print(json.dumps(info, indent=2) if as_json else as_text(info))
    return 0
