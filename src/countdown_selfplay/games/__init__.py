"""Games by name: one round of self-play, read top to bottom. A game sees a Round, never the Trainer."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ..contract.game import Game, Guide, Outcome, Proposal, Proposer
from ..contract.metric import Metric
from ..contract.round import Rollout, Round, RoundResult, Turn
from ..contract.stateful import Stateful, Stateless
from ..registry import Registry

GAMES: Registry[Any] = Registry(
    "game", {"propose_and_solve": "countdown_selfplay.games.propose_and_solve:ProposeAndSolve"}
)


def game_class(name: str) -> Any:
    """The class of a name; UnknownNameError suggests the nearest."""
    entry = GAMES[name]
    if isinstance(entry, str):
        module, _, cls = entry.partition(":")
        entry = getattr(import_module(module), cls)
    return entry


__all__ = [
    "GAMES",
    "Game",
    "Guide",
    "Metric",
    "Outcome",
    "Proposal",
    "Proposer",
    "Rollout",
    "Round",
    "RoundResult",
    "Stateful",
    "Stateless",
    "Turn",
    "game_class",
]
