"""Proposers by name. A proposer supplies a round's candidates and learns from their outcome."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..contract.game import BaseProposer, Proposal, Proposer
from ..contract.stateful import check_part
from ..errors import ConfigError
from ..packages import parts_beside
from ..registry import Registry

PROPOSERS: Registry[Any] = Registry(
    "proposer",
    {
        "policies": "countdown_selfplay.proposers.policies:Policies",
        "targets": "countdown_selfplay.proposers.targets:Targets",
        "stp": "countdown_selfplay.proposers.targets:STP",
        "tiers": "countdown_selfplay.proposers.tiers:Tiers",
        "mutation": "countdown_selfplay.proposers.symbolic.refresh:Mutation",
        "ucb": "countdown_selfplay.proposers.symbolic.bandits:UCB",
        "thompson": "countdown_selfplay.proposers.symbolic.bandits:Thompson",
        "factorized": "countdown_selfplay.proposers.symbolic.factorized:Factorized",
        "uniform_rungs": "countdown_selfplay.proposers.rungs:UniformRungs",
        "bandit_rungs": "countdown_selfplay.proposers.rungs:BanditRungs",
        "uniform_texts": "countdown_selfplay.proposers.rungs:UniformTexts",
        **parts_beside("proposer"),
    },
)


def make_proposer(name: str, arguments: dict[str, Any] | None = None) -> Proposer:
    """Build the proposer called `name`. Raises ConfigError for an unknown argument."""
    return PROPOSERS.make(name, arguments)


def unsupported(part: str, domain: Any, lacks: str, cure: str) -> ConfigError:
    """Return the ConfigError for a domain that lacks attributes (`lacks`) that `part` needs. cure: its remedy."""
    return ConfigError(
        f"{part} needs a domain with {lacks} (contract/domain.py), and {type(domain).__name__} lacks it; {cure}."
    )


def check_proposer(what: str, proposer: Any, players: Mapping[str, Sequence[str]], domain: Any = None) -> None:
    """Raise ConfigError unless `proposer` is a proposer, every role that it needs has a player, and its `check`
    accepts `domain`, if given. `what`: subject of the message. `players`: names of the players by role."""
    check_part(what, proposer, BaseProposer, ("propose",))
    for kind in proposer.needs:
        if not players.get(kind):
            raise ConfigError(f"{what} needs a {kind}; give `roles.{kind}` a player, or choose another proposer.")
    if domain is not None:
        proposer.check(players, domain)


__all__ = ["PROPOSERS", "BaseProposer", "Proposal", "Proposer", "check_proposer", "make_proposer", "unsupported"]
