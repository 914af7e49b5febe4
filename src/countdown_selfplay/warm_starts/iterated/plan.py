"""An iterated run before it is played: the dry run's account, and the training budget of another run for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...data.run_files import read_phases
from ...errors import ConfigError, DataError
from ...evaluation.terminal import aligned
from .settings import IteratedSettings, RoleTraining, of_iteration


def plan(settings: IteratedSettings, game: Any, problems: int) -> list[str]:
    """Lines: samples of an iteration if all answers are criticised by the critic that says most, and how each role is
    trained."""
    answers = settings.kinds["prover"].num_generations if "prover" in settings.kinds else 0
    critics = {kind: role.num_generations for kind, role in settings.kinds.items() if kind != "prover"}
    critiques = answers * max(critics.values(), default=0)
    revisions = critiques * getattr(game, "revisions", 0)
    lines = [
        "",
        "# An iteration",
        f"{problems} problems in chunks of {settings.chunk}; a problem: {answers} answers, at most {critiques} "
        f"critiques and {revisions} revisions; in all at most {problems * (answers + critiques + revisions):,} "
        f"samples of up to {settings.max_completion_length:,} tokens",
        "",
        f"# Training ({settings.algorithm}, each role from its initial model)",
    ]
    table: list[tuple[str, ...]] = [
        ("role", "iteration", "learning rate", "rows a step", "passes", "kept", "rows at most")
    ]
    for kind, role in settings.kinds.items():
        table += [_row(kind, role, t) for t in range(1, settings.iterations + 1)]
    if settings.imitate:
        lines.append(f"iteration 0: at most {settings.imitate_rows:,} samples of {settings.imitate} are imitated")
    return [*lines, aligned(table)]


def _row(kind: str, role: RoleTraining, iteration: int) -> tuple[str, ...]:
    steps = role.max_steps and of_iteration(role.max_steps, iteration)
    each = iteration if role.accumulate else 1  # iterations are balanced one by one
    most = "all" if role.balance is None else f"{each * role.balance:,} of each label"
    return (
        kind,
        str(iteration),
        f"{of_iteration(role.learning_rate, iteration):g}",
        str(of_iteration(role.batch_size, iteration)),
        f"{steps} steps" if steps is not None else f"{role.epochs:g}",
        f"reward {'>=' if role.inclusive else '>'} {role.threshold:g}",
        most,
    )


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
