"""Do time and memory per round stay flat? Many joint rounds of one trainer, and the slopes with their intervals."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import psutil
import torch
from contenders import Setting, build
from pacing import Paced

SETTLING = 50  # rounds in which caches and the allocator's arenas fill
BLOCK = 20  # rounds drawn together: neighbours share what else the machine was doing


def slope(values: np.ndarray) -> float:
    """Least squares, per round."""
    return float(np.polyfit(np.arange(len(values)), values, 1)[0])


def slope_interval(values: np.ndarray, resamples: int = 2000) -> tuple[float, float]:
    """95% interval of the slope: residuals from the line drawn in blocks, so that slow swings count as what they
    are."""
    x = np.arange(len(values))
    line = np.polyval(np.polyfit(x, values, 1), x)
    left, block = values - line, max(1, min(BLOCK, len(values) // 5))
    generator = np.random.default_rng(0)
    starts = generator.integers(0, len(values) - block + 1, (resamples, -(-len(values) // block)))
    drawn = left[(starts[:, :, None] + np.arange(block)).reshape(resamples, -1)[:, : len(values)]]
    slopes = [slope(line + noise) for noise in drawn]
    low, high = np.percentile(slopes, [2.5, 97.5])
    return float(low), float(high)


def measure_flatness(setting: Setting) -> dict[str, Any]:
    """`setting.steps` joint rounds; slopes over those after the first SETTLING (a fifth, in short runs)."""
    process = psutil.Process()
    wall, cpu, memory = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        trainer, phases, _ = build("joint", setting, folder)
        phases.on = False
        paced = Paced(trainer)
        for _ in range(setting.steps):
            seconds = paced.step()
            wall.append(seconds[0])
            cpu.append(seconds[1])
            gpu = torch.cuda.memory_allocated() if torch.cuda.is_available() else 0
            memory.append((process.memory_info().rss + gpu) / 2**20)
        paced.join()
    skipped = min(SETTLING, setting.steps // 5)
    found: dict[str, Any] = {"rounds": setting.steps, "skipped": skipped}
    lines = []
    for name, values, unit in (("cpu", cpu, "ms"), ("wall", wall, "ms"), ("memory", memory, "MiB")):
        kept = np.asarray(values[skipped:]) * (1000 if unit == "ms" else 1)
        low, high = slope_interval(kept)
        over, middle = len(kept), float(np.median(kept))
        found[name] = {
            "median": middle, "unit": unit, "slope_per_round": slope(kept), "slope_interval": [low, high],
            "change_over_run_percent": [100 * s * over / middle for s in (low, slope(kept), high)],
            "values": [round(float(v), 3) for v in values],
        }  # fmt: skip
        change = found[name]["change_over_run_percent"]
        lines.append(
            f"{name}: median {middle:.1f} {unit}, slope {slope(kept):+.5f} [{low:+.5f}, {high:+.5f}] {unit} a round, "
            f"{change[1]:+.1f}% [{change[0]:+.1f}%, {change[2]:+.1f}%] over {over} rounds"
        )
    found["text"] = "\n".join(lines)
    return found
