"""Proposers by name: where a round's candidates come from, and what they teach it."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

from ..contract.game import Proposal, Proposer
from ..errors import ConfigError
from ..registry import Registry

PROPOSERS: Registry[Any] = Registry("proposer", {"policies": "countdown_selfplay.proposers.policies:Policies"})


def make_proposer(name: str, arguments: dict[str, Any] | None = None) -> Proposer:
    """The proposer called `name`; ConfigError names an argument that it does not take."""
    entry, arguments = proposer_class(name), arguments or {}
    takes = [
        n for n, p in inspect.signature(entry).parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    unknown = [key for key in arguments if key not in takes]
    if unknown:
        allowed = f"it takes {', '.join(takes)}" if takes else "it takes no argument"
        raise ConfigError(f"Proposer '{name}' does not take {', '.join(unknown)}; {allowed}.")
    try:
        return entry(**arguments)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"Proposer '{name}': {error}") from None


def proposer_class(name: str) -> Any:
    """The class of a name; UnknownNameError suggests the nearest."""
    entry = PROPOSERS[name]
    if isinstance(entry, str):
        module, _, cls = entry.partition(":")
        entry = getattr(import_module(module), cls)
    return entry


__all__ = ["PROPOSERS", "Proposal", "Proposer", "make_proposer", "proposer_class"]
