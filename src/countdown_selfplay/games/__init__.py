"""Games by name: one round of self-play, read top to bottom. A game sees a Round, never the Trainer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..contract.game import Game, Guide, Outcome, Proposal, Proposer
from ..contract.metric import Metric
from ..contract.round import Rollout, Round, RoundResult, Turn
from ..contract.stateful import Stateful, Stateless
from ..registry import Registry

if TYPE_CHECKING:
    from .propose_and_solve import ProposeAndSolve

GAMES: Registry[Any] = Registry(
    "game", {"propose_and_solve": "countdown_selfplay.games.propose_and_solve:ProposeAndSolve"}
)


def game_class(name: str) -> Any:
    """The class of a name; UnknownNameError suggests the nearest."""
    return GAMES.load(name)


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
    "game_class",
]
