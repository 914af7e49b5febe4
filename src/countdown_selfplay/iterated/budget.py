"""The training budget of one run for another: as many optimizer steps of a role in each iteration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..data.run_files import read_phases
from ..errors import ConfigError, DataError
from .settings import RoleTraining


def samples_of(folder: Path) -> int:
    """Texts that an iterated run sampled and that its token limit did not cut; DataError if it sampled none."""
    lines = read_phases(folder / "iterations.jsonl")
    found = sum(line["samples"] for line in lines if line["phase"] == "play")
    if not found:
        raise DataError(f"'{folder}' holds no iteration that was played, so it is no budget; play that run first.")
    return int(found)


def with_budget(kinds: Mapping[str, RoleTraining], folder: Path, iterations: int) -> dict[str, RoleTraining]:
    """The roles with the steps (`max_steps`) that the iterated run in `folder` took, 0 where a role kept its weights;
    ConfigError unless it finished as many iterations with these roles."""
    lines = read_phases(folder / "iterations.jsonl")
    steps = {(line["iteration"], line["role"]): line.get("steps", 0) for line in lines if line["phase"] == "train"}
    found = {}
    for kind, training in kinds.items():
        own: list[Any] = [steps.get((t, kind)) for t in range(1, iterations + 1)]
        if None in own:
            raise ConfigError(
                f"`budget_of` ({folder}) tells of no training of the {kind} in iteration {own.index(None) + 1}; name "
                f"a run that trained it in all of {iterations}, or set `role_training.{kind}.max_steps`."
            )
        found[kind] = replace(training, max_steps=tuple(own))
    return found
