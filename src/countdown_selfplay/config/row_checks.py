"""Room for what a step trains on, where a role's samples of a round are not simply what its micro-batches hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import ConfigError
from .players import RoleSettings, field_of

if TYPE_CHECKING:
    from .joint import JointSelfPlayConfig


def check_samples_per_round(config: JointSelfPlayConfig) -> None:
    """Whole groups on every process, and steps that follow the data."""
    for settings in config.all_roles.values():
        samples, whole = settings.samples_per_round, settings.num_generations * config.world_size
        if samples is None:
            continue
        name = f"`{field_of(config, settings.kind, 'samples_per_round')}` ({samples})"
        if samples < 1 or samples % whole:
            near = max(round(samples / whole), 1) * whole
            raise ConfigError(
                f"{name} must be a multiple of num_generations ({settings.num_generations}) x processes "
                f"({config.world_size}), such as {near}."
            )
        if settings.trained and not settings.sequences_per_step and not _in_episodes(config, settings):
            raise ConfigError(
                f"{name} needs `sequences_per_step`, by which steps follow the data: without it a round is what the "
                "micro-batches hold; set it for the role, or leave samples_per_round unset."
            )


def check_demonstrations(config: JointSelfPlayConfig) -> None:
    """Demonstrations act through the supervised term alone."""
    for settings in config.all_roles.values():
        count, name = settings.demonstrations_per_step, field_of(config, settings.kind, "demonstrations_per_step")
        if count < 0:
            raise ConfigError(f"`{name}` ({count}) must be at least 0 demonstrations a step.")
        if count and settings.trained and not settings.sft_coef:
            other = field_of(config, settings.kind, "sft_coef")
            raise ConfigError(
                f"`{name}` ({count}) has no effect with `{other}` 0, the weight of the supervised term; set that too, "
                "such as 0.3."
            )


def check_episode_rows(config: JointSelfPlayConfig, most_moves: int) -> None:
    """Do the micro-batches of a step hold the rows of its episodes, were all of them as long as can be? An episode
    stays in one micro-batch, so that up to `most_moves` - 1 rows of each stay empty."""
    for settings in config.all_roles.values():
        if not settings.trained or settings.kind != config.solver.kind:
            continue
        size, batches = config.per_device_train_batch_size, settings.trained_micro_batches
        answers = _answers_of_a_step(config, settings)
        rows = -(-answers // config.world_size) * most_moves
        usable = size - most_moves + 1
        if usable >= 1 and rows <= usable * batches:
            continue
        name = field_of(config, settings.kind, "micro_batches")
        cure = f"set {name} to {-(-rows // usable)}" if usable >= 1 else f"raise it to at least {most_moves}"
        raise ConfigError(
            f"`per_device_train_batch_size` ({size}) x `{name}` ({batches}) must hold the {rows} rows of the "
            f"{answers} episodes of a step of the {settings.kind}, of {most_moves} moves at most, each in one "
            f"micro-batch; {cure}, or lower what a step trains on."
        )


def _answers_of_a_step(config: JointSelfPlayConfig, settings: RoleSettings) -> int:
    """The most answers that a step trains on, over all processes."""
    if settings.samples_per_round is not None or settings.sequences_per_step:
        if settings.objective_kwargs.get("reuse"):  # steps of so many, whatever a round sampled
            return settings.sequences_per_step + settings.demonstrations_per_step
        share = -(-config.kept_answers(settings.role) // config.steps_per_round)
        return max(share, settings.sequences_per_step) + settings.demonstrations_per_step
    return config.kept_answers(settings.role) // config.steps_per_round + settings.demonstrations_per_step


def _in_episodes(config: JointSelfPlayConfig, settings: RoleSettings) -> bool:
    return getattr(config, "answers", "whole") == "moves" and settings.kind == config.solver.kind
