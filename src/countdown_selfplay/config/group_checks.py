"""Whole groups per process: what `num_generations` may be, for the roles that read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..objectives import make_objective
from .players import RoleSettings, field_of, role_config, was_given

if TYPE_CHECKING:
    from .joint import JointSelfPlayConfig


def one_of_each_kind(config: JointSelfPlayConfig) -> list[RoleSettings]:
    """The first player of each kind that is there; the others have its settings."""
    return list({s.kind: s for s in reversed(config.all_roles.values())}.values())[::-1]


def check_groups(config: JointSelfPlayConfig, settings: RoleSettings) -> None:
    """Rule 3 of the design: whole groups per process, or a group's baseline would need another process's samples."""
    kind, group = settings.kind, settings.num_generations
    name = group_name(config, kind)
    samples = config.per_device_train_batch_size * settings.micro_batches
    if group < 1:
        raise ConfigError(f"`{name}` ({group}) must be at least 1 sample.")
    if settings.samples_per_round is None and samples % group:
        allowed = _group_sizes(config, name)
        close = sorted(sorted(allowed, key=lambda n: abs(n - group))[:2])
        cure = f"use {' or '.join(map(str, close))}, or change the batch" if close else "change the batch"
        raise ConfigError(
            f"`{name}` ({group}) must divide `per_device_train_batch_size` x "
            f"`{field_of(config, kind, 'micro_batches')}` ({samples}); {cure}."
        )


def _group_sizes(config: JointSelfPlayConfig, name: str) -> list[int]:
    """The values from 2 on of the field `name` that all roles which read it can take: they divide what a process holds
    of each, and give each objective the samples that it compares."""
    readers = [s for s in one_of_each_kind(config) if group_name(config, s.kind) == name]
    held = [s.samples_per_round or config.per_device_train_batch_size * s.micro_batches for s in readers]
    least = max([2, *(needed_samples(objective_of(config, s.kind), s.kind) for s in readers if s.trained)])
    return [n for n in range(least, min(held) + 1) if all(samples % n == 0 for samples in held)]


def objective_of(config: JointSelfPlayConfig, kind: str) -> Any:
    role = role_config(config, kind)
    clips = {"low": config.importance_clip_low, "high": config.importance_clip_high}
    return make_objective(role.objective, role.arguments, **clips)


def needed_samples(objective: Any, kind: str) -> int:
    """Samples per prompt that the objective compares with each other."""
    needed = getattr(objective, "needs_samples", 1)
    return max(needed, getattr(objective, "needs_answers", 1)) if kind == "prover" else needed


def group_name(config: JointSelfPlayConfig, kind: str) -> str:
    own = was_given(config, kind, "num_generations")
    return field_of(config, kind, "num_generations") if own else "num_generations"
