"""Rules on the room of a round: samples, sequences and rows that the micro-batches of a step hold."""

from __future__ import annotations

from ..errors import ConfigError
from .roles import Role
from .settings import SelfPlaySettings


def check_step(config: SelfPlaySettings) -> None:
    """Sizes from which TRL would derive a round are derived from the roles."""
    trained = [s for s in config.all_roles.values() if s.trained]
    if not trained:
        raise ConfigError("`roles` has no role that is trained: give one of them weights other than start.")
    if config.gradient_accumulation_steps != 1:
        raise ConfigError(
            f"`gradient_accumulation_steps` ({config.gradient_accumulation_steps}) must be 1: a Trainer step is "
            "a round, and the micro_batches of the roles say what its optimizer steps accumulate; leave it unset."
        )
    if config.steps_per_generation not in (None, config.steps_per_round) or (
        config.generation_batch_size is not None and config.steps_per_generation is None
    ):
        raise ConfigError(
            f"`steps_per_generation` ({config.steps_per_generation}) and `generation_batch_size` "
            f"({config.generation_batch_size}) cannot be set: a round generates once for all its optimizer steps; "
            "change per_device_train_batch_size, micro_batches or steps_per_round."
        )


def check_room(config: SelfPlaySettings) -> None:
    """Samples, demonstrations and sequences of a step, where they are not simply what the micro-batches hold."""
    for settings in config.all_roles.values():
        _check_samples_per_round(config, settings)
        count, name = settings.demonstrations_per_step, config.field_of(settings.kind, "demonstrations_per_step")
        if count < 0:
            raise ConfigError(f"`{name}` ({count}) must be at least 0 demonstrations a step.")
        if count and settings.trained and not settings.sft_coef:
            other = config.field_of(settings.kind, "sft_coef")
            raise ConfigError(
                f"`{name}` ({count}) has no effect with `{other}` 0, the weight of the supervised term; set that "
                "too, such as 0.3."
            )
        size, processes = config.per_device_train_batch_size, config.world_size
        held = size * settings.trained_micro_batches * processes
        if settings.trained and settings.sequences_per_step > held:
            name = config.field_of(settings.kind, "micro_batches")
            needed = -(-settings.sequences_per_step * settings.micro_batches // held)
            raise ConfigError(
                f"`sequences_per_step` ({settings.sequences_per_step}) is more than the {held} sequences that a step "
                f"of the {settings.kind} holds (per_device_train_batch_size {size} x {settings.trained_micro_batches} "
                f"micro-batches x {processes} processes); lower it, or raise {name} to {needed}."
            )


def _check_samples_per_round(config: SelfPlaySettings, settings: Role) -> None:
    samples, whole = settings.samples_per_round, settings.num_generations * config.world_size
    if samples is None:
        return
    name = f"`{config.field_of(settings.kind, 'samples_per_round')}` ({samples})"
    if samples < 1 or samples % whole:
        near = max(round(samples / whole), 1) * whole
        raise ConfigError(
            f"{name} must be a multiple of num_generations ({settings.num_generations}) x processes "
            f"({config.world_size}), such as {near}."
        )
    in_episodes = config.answers == "moves" and settings.kind == config.solver.kind
    if settings.trained and not settings.sequences_per_step and not in_episodes:
        raise ConfigError(
            f"{name} needs `sequences_per_step`, by which steps follow the data: without it a round is what the "
            "micro-batches hold; set it for the role, or leave samples_per_round unset."
        )


def check_episode_rows(config: SelfPlaySettings, most_moves: int) -> None:
    """The micro-batches of a step hold the rows of its episodes, were all of them as long as can be. An episode stays
    in one micro-batch, so that up to `most_moves` - 1 rows of each stay empty."""
    for settings in config.all_roles.values():
        if not settings.trained or settings.kind != config.solver.kind:
            continue
        size, batches = config.per_device_train_batch_size, settings.trained_micro_batches
        answers = _answers_of_a_step(config, settings)
        rows = -(-answers // config.world_size) * most_moves
        usable = size - most_moves + 1
        if usable >= 1 and rows <= usable * batches:
            continue
        name = config.field_of(settings.kind, "micro_batches")
        cure = f"set {name} to {-(-rows // usable)}" if usable >= 1 else f"raise it to at least {most_moves}"
        raise ConfigError(
            f"`per_device_train_batch_size` ({size}) x `{name}` ({batches}) must hold the {rows} rows of the "
            f"{answers} episodes of a step of the {settings.kind}, of {most_moves} moves at most, each in one "
            f"micro-batch; {cure}, or lower what a step trains on."
        )


def _answers_of_a_step(config: SelfPlaySettings, settings: Role) -> int:
    """The most answers that a step trains on, over all processes."""
    beside = settings.demonstrations_per_step
    if settings.samples_per_round is not None or settings.sequences_per_step:
        kwargs = settings.objective_kwargs
        if kwargs.get("reuse") or kwargs.get("carry"):  # steps of so many, whatever a round sampled
            return settings.sequences_per_step + beside
        share = -(-config.kept_answers(settings.role) // config.steps_per_round)
        return max(share, settings.sequences_per_step) + beside
    return config.kept_answers(settings.role) // config.steps_per_round + beside
