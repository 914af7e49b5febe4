"""Runs that differ only in the seed are one arm: its curve is the mean over seeds with a band."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...statistics.bootstrap import Estimate
from ...statistics.seeds import t_interval
from .load import Run

# Fields that differ between any two runs and say nothing about the setting.
PLACES = frozenset({"output_dir", "run_name", "logging_dir", "project"})
SEEDS = frozenset({"seed", "data_seed"})
T_FROM = 3  # seeds from which a t interval is drawn; of two it would be 13 standard deviations wide


@dataclass(frozen=True)
class RunArm:
    """One setting and its runs, one per seed."""

    name: str
    runs: list[Run]


def arms_of(runs: Sequence[Run]) -> list[RunArm]:
    """The runs grouped by setting, in the order of their first runs. Runs of one setting and one seed stay apart: they
    are repetitions, or differ in something that no config says."""
    groups: dict[str, list[Run]] = {}
    for i, run in enumerate(runs):
        rest = {name: value for name, value in run.config.items() if name not in PLACES | SEEDS}
        groups.setdefault(json.dumps(rest, sort_keys=True, default=str) if run.config else str(i), []).append(run)
    arms = []
    for group in groups.values():
        seeds = [run.config.get("seed") for run in group]
        if len(group) > 1 and len(set(seeds)) == len(seeds) and None not in seeds:
            arms.append(RunArm(_name([run.name for run in group]), group))
        else:
            arms += [RunArm(run.name, [run]) for run in group]
    names = [arm.name for arm in arms]
    clear = [name if names.count(name) == 1 else f"{name}, {i}" for i, name in enumerate(names, start=1)]
    order = {id(run): i for i, run in enumerate(runs)}
    arms = [RunArm(name, arm.runs) for name, arm in zip(clear, arms, strict=True)]
    return sorted(arms, key=lambda arm: order[id(arm.runs[0])])


def over_seeds(values: Sequence[float]) -> Estimate:
    """Mean with a 95% t interval from three seeds on, with least and greatest value of two."""
    if len(values) >= T_FROM:
        return t_interval(values)
    return Estimate(float(np.mean(values)), min(values), max(values))


def band_text(arms: Sequence[RunArm]) -> str:
    """What the bands are, in words; "" without one."""
    counts = {len(arm.runs) for arm in arms if len(arm.runs) > 1}
    parts = ["least to greatest of two seeds"] if 2 in counts else []
    parts += ["95% t interval of the mean over seeds"] if max(counts, default=0) >= T_FROM else []
    return f"Bold: mean over the seeds of an arm; shaded: {', '.join(parts)}." if parts else ""


def _name(names: Sequence[str]) -> str:
    same = [len(set(letters)) == 1 for letters in zip(*names, strict=False)]
    common = names[0][: [*same, False].index(False)].rstrip("0123456789").rstrip("-_./ ")
    common = common.removesuffix("seed").rstrip("-_./ ")
    return f"{common or names[0]} ({len(names)} seeds)"
