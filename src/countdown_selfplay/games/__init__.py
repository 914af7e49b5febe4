"""Registry of games. A game plays one round of self-play; it receives a Round and never the Trainer."""

from collections.abc import Mapping
from typing import Any

from ..contract.game import BaseGame, Game
from ..contract.metric import Metric
from ..contract.round import Round, RoundResult, Turn
from ..contract.stateful import check_part
from ..errors import ConfigError
from ..registry import Registry

GAMES: Registry[Any] = Registry(
    "game",
    {
        "propose_and_solve": "countdown_selfplay.games.propose_and_solve:ProposeAndSolve",
        "critic_discernment": "countdown_selfplay.games.critic_discernment:CriticDiscernment",
    },
)


def check_game(what: str, game: Any) -> None:
    """Raise ConfigError unless `game`, an object or a class, is derived from BaseGame, implements `play`, has a
    non-empty mapping `roles`, and defines both or neither of `state_dict` and `load_state_dict`. `what`: name of the
    game in the message."""
    check_part(what, game, BaseGame, ("play",))
    if not isinstance(game.roles, Mapping) or not game.roles:
        cure = "a dict from each kind of role to its task, such as {'prover': 'solves problems'}"
        raise ConfigError(f"{what} must have `roles`, {cure}; it has {game.roles!r}.")


__all__ = ["GAMES", "BaseGame", "Game", "Metric", "Round", "RoundResult", "Turn", "check_game"]
