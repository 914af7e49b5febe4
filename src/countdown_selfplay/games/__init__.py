"""Registry of games. A game plays one round of self-play; it receives a Round and never the Trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..contract.game import BaseGame, Game, Guide, Outcome, Proposal, Proposer
from ..contract.metric import Metric, Panel
from ..contract.round import Rollout, Round, RoundResult, Turn
from ..contract.stateful import Stateful, Stateless, check_part
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
    """Return the class of the game called `name`. Raises UnknownNameError, which suggests the nearest name."""
    return GAMES.load(name)


def check_game(what: str, game: Any) -> None:
    """Raise ConfigError unless a game, or a game's class, has the required methods and `roles`."""
    check_part(what, game, BaseGame, ("play",))
    if not isinstance(game.roles, Mapping) or not game.roles:
        raise ConfigError(
            f"{what} must have `roles`, a dict from each kind of role to its task, such as "
            f"{{'prover': 'solves problems'}}; it has {game.roles!r}."
        )


def __getattr__(name: str) -> Any:
    if name == "ProposeAndSolve":  # it needs torch, which reports that read `games.metrics` do not load
        return game_class("propose_and_solve")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "GAMES",
    "BaseGame",
    "Game",
    "Guide",
    "Metric",
    "Panel",
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
