"""The game of a run, from the configuration or passed as an object, and the metrics that it declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..config import JointSelfPlayConfig
from ..contract.frame_metrics import FRAME_METRICS
from ..contract.game import Game
from ..contract.metric import Metric, for_players
from ..errors import ConfigError
from ..games import GAMES, check_game, game_class
from ..guides import check_guide
from ..proposers import check_proposer
from ..rewards import ConjecturerReward, make_conjecturer_reward
from ..rewards.base import takes_context
from .states import check_state, refuse_class


def with_roles_of(args: JointSelfPlayConfig, game: Any) -> JointSelfPlayConfig:
    """`args` for the roles that a game passed as an object has."""
    if game is None and args.game is None:
        raise ConfigError("`game` (None) says that the trainer is given a game; pass it, or name one of GAMES.")
    if game is None:
        return args
    refuse_class("game", game)
    check_game(f"`game` ({type(game).__name__})", game)
    return args.with_kinds(game.roles, game.optional_roles)


def game_of(args: JointSelfPlayConfig, conjecturer_reward: ConjecturerReward | str | None, game: Any = None) -> Game:
    """The game that was passed, or the one that `args` names. conjecturer_reward: the user's callable, or a name,
    instead of the one in `args`. Its state, with that of its proposer and guide, can be saved."""
    made = _made_game(args, conjecturer_reward, game)
    check_state("game", made)
    return made


def _made_game(args: JointSelfPlayConfig, conjecturer_reward: ConjecturerReward | str | None, game: Any) -> Game:
    entry = game_class(str(args.game)) if game is None else game
    if game is not None or entry.from_config is None:
        if conjecturer_reward is not None:
            raise ConfigError(
                f"`conjecturer_reward` ({conjecturer_reward!r}) is not read by a game of your own; give it to the "
                "game, such as ProposeAndSolve(reward=...), and leave it out."
            )
        made = GAMES.make(str(args.game), args.game_arguments) if game is None else game
        parts: tuple[tuple[str, Any, Any], ...]
        parts = ("proposer", made.proposer, check_proposer), ("guide", made.guide, check_guide)
        for kind, part, check in parts:
            if part is not None:
                refuse_class(kind, part)
                check(f"`{kind}` of the game ({type(part).__name__})", part, args.players_by_kind)
        made.check(args)
        return made
    reward = None if conjecturer_reward is None else conjecturer_reward_of(args, conjecturer_reward)
    return entry.from_config(args, reward=reward)


def conjecturer_reward_of(args: JointSelfPlayConfig, given: ConjecturerReward | str | None) -> ConjecturerReward:
    """The user's callable if there is one, else the reward that is named."""
    if given is None or isinstance(given, str):
        return make_conjecturer_reward(given or args.conjecturer_reward, {} if given else args.reward_arguments)
    if not callable(given):
        raise ConfigError(
            f"`conjecturer_reward` ({given!r}) must be a callable (solve_rate_P, ctx) -> reward_P, or a name in "
            "CONJECTURER_REWARDS."
        )
    takes_context(given)
    return given


def declared_metrics(game: Game, players: Mapping[str, Sequence[str]]) -> list[Metric]:
    """The frame's and the game's, with those of its proposer and guide, one per player; of two of one name the last.
    `players`: kind -> its players."""
    own: list[Metric] = []
    for what, part in (("game", game), ("proposer", game.proposer), ("guide", game.guide)):
        declared = () if part is None else part.metrics
        if not isinstance(declared, list | tuple) or not all(isinstance(metric, Metric) for metric in declared):
            raise ConfigError(f"`metrics` of the {what} ({declared!r}) must be a list of Metric(name, help, ...).")
        own += declared
    # What no player wrote is logged as of `proposer`.
    written = {kind: list(names) or ["proposer"] for kind, names in players.items()}
    found = [*for_players(FRAME_METRICS, players), *for_players(own, written)]
    return list({metric.name: metric for metric in found}.values())
