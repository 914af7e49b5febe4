"""Rules on the parts of a run: domain, game, proposer and guide can be built from their arguments and fit each
other."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ..countdown.exact.solver import MAX_OPERANDS
from ..countdown.problem import MAX_NUMBERS
from ..curriculum.admission import batch_of_all
from ..domains import domain_from
from ..errors import ConfigError
from ..games import GAMES
from ..guides import GUIDES, check_guide
from ..options import is_whole
from ..proposers import check_proposer, make_proposer
from ..rewards import make_conjecturer_reward
from .recipes import GAME

if TYPE_CHECKING:
    from .joint import JointSelfPlayConfig

SOLVED = ("mutation", "ucb", "thompson", "factorized")
"""Proposers whose candidates and features come from the exact solver."""


def check_parts(config: JointSelfPlayConfig) -> None:
    """Build every named part with its arguments and check that it fits the roles."""
    make_conjecturer_reward(config.conjecturer_reward, config.reward_arguments)
    if config.game is None and config.game_arguments:
        raise ConfigError(
            f"`game_kwargs` ({config.game_arguments}) is for a game that `game` names, and it is None; pass them to "
            "your object."
        )
    if config.from_settings and config.game_arguments:
        raise ConfigError(
            f"`game_kwargs` ({config.game_arguments}) is for other games: the arguments of {config.game} are fields, "
            "such as anchor_fraction; set those."
        )
    for field in dataclasses.fields(config) if not config.from_settings else ():
        if field.name in GAME and (value := getattr(config, field.name)) != field.default:
            played = "your object" if config.game is None else f"'{config.game}'"
            raise ConfigError(
                f"`{field.name}` ({value}) is a setting of propose_and_solve, and the game is {played}; leave it out."
            )
    if config.game is not None and not config.from_settings:
        GAMES.make(config.game, config.game_arguments)
    for part, given in (("proposer", config.proposer_arguments), ("guide", config.guide_arguments)):
        if given and getattr(config, part) is None:
            raise ConfigError(f"`{part}_kwargs` ({given}) has no `{part}` to go to; name one, or leave it unset.")
    if config.proposer is not None:
        proposer = make_proposer(config.proposer, config.proposer_arguments)
        domain = domain_from(config) if config.describes_domain else None
        check_proposer(f"`proposer` ({config.proposer})", proposer, config.players_by_kind, domain)
        _check_slots(config, proposer)
    guide = None if config.guide is None else GUIDES.make(config.guide, config.guide_arguments)
    if "guide" in config.optional:
        check_guide(f"`guide` ({config.guide})", guide, config.players_by_kind)


def check_fill(config: JointSelfPlayConfig) -> None:
    """Check that proposals have slots, and enough of them if every proposal must be played (fill=keep_all)."""
    proposing, settings = config.players_of("conjecturer"), config.game_settings
    slots, fraction = config.problems_per_round, settings.anchor_fraction
    if not proposing and (config.proposer is None or fraction < 1):
        return
    if config.anchor_slots >= slots:
        raise ConfigError(
            f"`anchor_fraction` ({fraction}) of {slots} slots leaves the conjecturer none; lower it, or set "
            "conjecturer_players=0 for plain RL on the anchors."
        )
    if settings.fill == "none" and fraction:
        raise ConfigError(
            f"`anchor_fraction` ({fraction}) is a share of the data set's problems, and fill=none plays none of them; "
            "set it to 0, or fill to anchor."
        )
    if settings.fill != "keep_all":
        return
    multiple, proposals = settings.truncate_multiple or 1, config.proposals_per_round * len(proposing)
    most = batch_of_all(proposals, fraction, multiple)
    if most > slots:
        raise ConfigError(
            f"`problems_per_round` ({slots}) is less than the {most} problems that fill=keep_all may play: "
            f"{proposals} proposals, anchor_fraction {fraction}, padded to a multiple of {multiple}; raise "
            f"it to {most}, or lower proposals_per_round."
        )


def check_placebo(config: JointSelfPlayConfig) -> None:
    """Check that a conjecturer is trained if `shuffled_rewards` is set."""
    players = config.players_of("conjecturer")
    if config.game_settings.shuffled_rewards and not any(config.all_roles[player].trained for player in players):
        why = "its weights are frozen" if players else "there is none"
        raise ConfigError(
            f"`shuffled_rewards` (True) is the placebo of a conjecturer that is trained, and in this run {why}; train "
            "one, or leave it unset."
        )


def _check_slots(config: JointSelfPlayConfig, proposer: Any) -> None:
    """Check that no slots are kept for anchors if the proposer fills all, and that its plan ends by `max_steps`."""
    fraction = config.game_settings.anchor_fraction
    if proposer.fills_slots and fraction:
        raise ConfigError(
            f"`proposer` ({config.proposer}) fills every slot of a round, and `anchor_fraction` ({fraction}) leaves "
            "it fewer; set anchor_fraction to 0."
        )
    if proposer.planned_rounds > config.max_steps > 0:
        raise ConfigError(
            f"`rounds` of the proposer ({proposer.planned_rounds}) is the length of its plan, and the run ends after "
            f"`max_steps` ({config.max_steps}), before the plan does; give both the same."
        )


def check_problems(config: JointSelfPlayConfig) -> None:
    """Check the ranges of Countdown's problems."""
    if config.domain != "countdown":
        return
    countdown = config.countdown
    most = MAX_NUMBERS if config.answers == "moves" else MAX_OPERANDS  # no solver is asked in moves
    if not countdown.operands or not all(is_whole(k, 2) and k <= most for k in countdown.operands):
        raise ConfigError(
            f"`operands` ({countdown.operands}) must list operand counts from 2 to {most}, such as [3, 4]."
        )
    if config.proposer in SOLVED and max(countdown.operands) > MAX_OPERANDS:
        raise ConfigError(
            f"`proposer` ({config.proposer}) chooses targets by the exact solver's list of all solutions, "
            f"which ends at {MAX_OPERANDS} numbers, and `operands` go to {max(countdown.operands)}; in moves use "
            "ucb_rungs or thompson_rungs, which need no solver, or fewer numbers."
        )
    for name in ("number", "target"):
        low, high = getattr(countdown, f"{name}_low"), getattr(countdown, f"{name}_high")
        if not 1 <= low <= high:
            raise ConfigError(f"`{name}_low` ({low}) and `{name}_high` ({high}) must satisfy 1 <= low <= high.")


def check_stops(config: JointSelfPlayConfig, domain: Any) -> None:
    """Check that the stop strings of prover and conjecturer do not cut off the answer."""
    for kind in ("prover", "conjecturer"):
        stops = config.role(kind).stop if config.players_of(kind) else None
        cut = domain.cut_by(kind, stops) if stops else None
        if cut is not None:
            raise ConfigError(
                f"`{config.field_of(kind, 'stop')}` ({list(stops or ())}) cuts what the prompt asks for, {cut!r}, "
                "before it can be read; use the text that ends it, such as </answer> or </problem>, or leave it unset."
            )
