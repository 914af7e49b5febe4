"""Proposers by name: where a round's candidates come from, and what they teach it."""

from __future__ import annotations

from typing import Any

from ..contract.game import Proposal, Proposer
from ..registry import Registry

PROPOSERS: Registry[Any] = Registry("proposer", {"policies": "countdown_selfplay.proposers.policies:Policies"})


def make_proposer(name: str, arguments: dict[str, Any] | None = None) -> Proposer:
    """The proposer called `name`; ConfigError names an argument that it does not take."""
    return PROPOSERS.make(name, arguments)


def proposer_class(name: str) -> Any:
    """The class of a name; UnknownNameError suggests the nearest."""
    return PROPOSERS.load(name)


__all__ = ["PROPOSERS", "Proposal", "Proposer", "make_proposer", "proposer_class"]
