"""Rules on the game's fields: which problems exist, how a round is filled, what ends a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..countdown import CountdownDomain
from ..countdown.exact.solver import MAX_OPERANDS
from ..countdown.problem import MAX_NUMBERS
from ..curriculum.admission import batch_of_all
from ..errors import ConfigError
from .players import field_of

if TYPE_CHECKING:
    from .joint import JointSelfPlayConfig


def check_fill(config: JointSelfPlayConfig) -> None:
    """Room for proposals, and for all of them where none may be left out."""
    proposing = config.players_of("conjecturer")
    slots, fraction = config.slots_per_round, config.anchor_fraction
    if not proposing and (config.proposer is None or fraction < 1):
        return
    if config.anchor_slots >= slots:
        raise ConfigError(
            f"`anchor_fraction` ({config.anchor_fraction}) of {config.slots_per_round} slots leaves the conjecturer "
            "none; lower it, or set conjecturer_micro_batches=0 for plain RL on the anchors."
        )
    if config.fill == "none" and fraction:
        raise ConfigError(
            f"`anchor_fraction` ({fraction}) is a share of the data set's problems, and fill=none plays none of them; "
            "set it to 0, or fill to anchor."
        )
    multiple, proposals = config.fill_multiple, sum(config.capacity(player) for player in proposing)
    most = batch_of_all(proposals, fraction, multiple)
    if config.fill == "keep_all" and most > slots:
        size = config.per_device_train_batch_size * config.steps_per_round * config.world_size
        needed = -(-most * config.solver.num_generations // size)
        raise ConfigError(
            f"`{field_of(config, 'prover', 'micro_batches')}` ({config.solver.micro_batches}) holds {slots} problems "
            f"a round, and fill=keep_all may play {most}: {proposals} proposals, anchor_fraction {fraction}, padded "
            f"to a multiple of {multiple}; raise it to {needed}, or sample fewer proposals."
        )


def check_placebo(config: JointSelfPlayConfig) -> None:
    """Is there anybody whose rewards could be shuffled?"""
    if not isinstance(config.shuffled_rewards, bool):
        raise ConfigError(f"`shuffled_rewards` ({config.shuffled_rewards!r}) must be true or false.")
    players = config.players_of("conjecturer")
    if config.shuffled_rewards and not any(config.all_roles[player].trained for player in players):
        why = "its weights are frozen" if players else "there is none"
        raise ConfigError(
            f"`shuffled_rewards` (True) is the placebo of a conjecturer that is trained, and in this run {why}; train "
            "one, or leave it unset."
        )


def check_slots(config: JointSelfPlayConfig, proposer: Any) -> None:
    """Has a proposer that fills a round the whole round?"""
    if proposer.fills_slots and config.anchor_fraction:
        raise ConfigError(
            f"`proposer` ({config.proposer}) fills every slot of a round, and `anchor_fraction` "
            f"({config.anchor_fraction}) leaves it fewer; set anchor_fraction to 0."
        )


def check_sequences(config: JointSelfPlayConfig) -> None:
    """Room for the sequences of a step in the micro-batches of one."""
    for settings in config.all_roles.values():
        size, processes = config.per_device_train_batch_size, config.world_size
        held = size * settings.trained_micro_batches * processes
        if settings.trained and settings.sequences_per_step > held:
            name = field_of(config, settings.kind, "micro_batches")
            needed = -(-settings.sequences_per_step * settings.micro_batches // held)
            raise ConfigError(
                f"`sequences_per_step` ({settings.sequences_per_step}) is more than the {held} sequences that a step "
                f"of the {settings.kind} holds (per_device_train_batch_size {size} x {settings.trained_micro_batches} "
                f"micro-batches x {processes} processes); lower it, or raise {name} to {needed}."
            )


def check_stops(config: JointSelfPlayConfig) -> None:
    """A stop string that stands in what the prompt asks for would leave no answer to read."""
    if config.domain != "countdown":
        return
    domain = CountdownDomain.from_config(config)
    for kind in ("prover", "conjecturer"):
        stops = config.role(kind).stop if config.players_of(kind) else None
        cut = domain.cut_by(kind, stops) if stops else None
        if cut is not None:
            raise ConfigError(
                f"`{field_of(config, kind, 'stop')}` ({list(stops or ())}) cuts what the prompt asks for, {cut!r}, "
                "before it can be read; use the text that ends it, such as </answer> or </problem>, or leave it unset."
            )


SOLVED = ("mutation", "ucb", "thompson", "factorized")
"""Proposers whose candidates and features come from the exact solver."""


def check_problems(config: JointSelfPlayConfig) -> None:
    counts = config.operands if isinstance(config.operands, (list, tuple)) else ()  # a YAML file may say `3`
    most = MAX_NUMBERS if config.answers == "moves" else MAX_OPERANDS  # no solver is asked in moves
    if not counts or any(not isinstance(k, int) or not 2 <= k <= most for k in counts):
        raise ConfigError(f"`operands` ({config.operands}) must list operand counts from 2 to {most}, such as [3, 4].")
    if config.proposer in SOLVED and max(counts) > MAX_OPERANDS:
        raise ConfigError(
            f"`proposer` ({config.proposer}) chooses targets by the exact solver's list of all solutions, "
            f"which ends at {MAX_OPERANDS} numbers, and `operands` go to {max(counts)}; in moves use ucb_rungs or "
            "thompson_rungs, which need no solver, or fewer numbers."
        )
    for name in ("number", "target"):
        low, high = getattr(config, f"{name}_low"), getattr(config, f"{name}_high")
        if not 1 <= low <= high:
            raise ConfigError(f"`{name}_low` ({low}) and `{name}_high` ({high}) must satisfy 1 <= low <= high.")
