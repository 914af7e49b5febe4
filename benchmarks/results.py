"""What the benchmarks of training share: intervals, the machine, the file of figures."""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
import trl


def spread(values: list[float], resamples: int = 10_000) -> dict[str, Any]:
    """Least, median, most, and the 95% percentile bootstrap interval of the median."""
    draws = np.random.default_rng(0).choice(np.asarray(values), (resamples, len(values)))
    low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
    return {
        "min": min(values), "median": statistics.median(values), "max": max(values),
        "interval": [float(low), float(high)],
    }  # fmt: skip


def machine() -> dict[str, Any]:
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    return {
        "date": datetime.date.today().isoformat(), "device": device, "cores": os.cpu_count(),
        "threads": torch.get_num_threads(), "python": platform.python_version(), "torch": torch.__version__,
        "transformers": transformers.__version__, "trl": trl.__version__,
        "precision": "bf16" if torch.cuda.is_available() else "float32",
    }  # fmt: skip


def write_json(output: Path | None, result: dict[str, Any]) -> None:
    """Into `output`, whose folder is made; None: nowhere."""
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(result, indent=1) + "\n")
