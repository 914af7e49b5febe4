"""What an iterated run would do, in words."""

from __future__ import annotations

from typing import Any

from ..evaluation.terminal import aligned
from .retrain import of_iteration
from .settings import IteratedSettings, RoleTraining


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
