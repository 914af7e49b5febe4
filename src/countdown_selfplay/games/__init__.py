"""Games by name: one round of self-play, read top to bottom. A game sees a Round, never the Trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..contract.game import Game, Guide, Outcome, Proposal, Proposer
from ..contract.metric import Metric
from ..contract.round import Rollout, Round, RoundResult, Turn
from ..contract.stateful import Stateful, Stateless, check_stateful
from ..errors import ConfigError
from ..registry import Registry

if TYPE_CHECKING:
    from .propose_and_solve import ProposeAndSolve

GAMES: Registry[Any] = Registry(
    "game",
    {
        "propose_and_solve": "countdown_selfplay.games.propose_and_solve:ProposeAndSolve",
        "critic_discernment": "countdown_selfplay.games.critic_discernment:CriticDiscernment",
    },
)


def game_class(name: str) -> Any:
    """The class of a name; UnknownNameError suggests the nearest."""
    return GAMES.load(name)


def check_game(what: str, game: Any) -> None:
    """ConfigError unless it has what the frame asks of a game, or of a game's class."""
    roles = getattr(game, "roles", None)
    if not isinstance(roles, Mapping) or not roles:
        raise ConfigError(
            f"{what} must have `roles`, a dict from each kind of role to what it does, such as "
            f"{{'prover': 'solves problems'}}; it has {roles!r}."
        )
    if not callable(getattr(game, "play", None)):
        raise ConfigError(f"{what} must have a method `play(round, anchors)` that returns a RoundResult.")
    check_stateful(what, game)


def __getattr__(name: str) -> Any:
    if name == "ProposeAndSolve":  # it needs torch, which a report that reads `games.metrics` does without
        return game_class("propose_and_solve")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "GAMES",
    "Game",
    "Guide",
    "Metric",
    "Outcome",
    "Proposal",
    "ProposeAndSolve",
    "Proposer",
    "Rollout",
    "Round",
    "RoundResult",
    "Stateful",
    "Stateless",
    "Turn",
    "check_game",
    "game_class",
]
