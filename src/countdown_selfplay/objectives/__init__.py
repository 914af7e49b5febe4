"""Registry of objectives. A new one is a file here and an entry in OBJECTIVES. This module loads no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..contract.stateful import check_part
from ..registry import Registry

if TYPE_CHECKING:
    from .base import Objective

# name -> "module:class"; a class can be added as it is: OBJECTIVES["mine"] = MyObjective
OBJECTIVES: Registry[str | type] = Registry(
    "objective",
    {
        "rloo": "countdown_selfplay.objectives.rloo:RLOO",
        "reinforce": "countdown_selfplay.objectives.reinforce:Reinforce",
        "reinforce_half": "countdown_selfplay.objectives.reinforce_half:ReinforceHalf",
        "cispo": "countdown_selfplay.objectives.cispo:CISPO",
        "grpo": "countdown_selfplay.objectives.grpo:GRPO",
        "dr_grpo": "countdown_selfplay.objectives.grpo:DrGRPO",
        "expert_iteration": "countdown_selfplay.objectives.expert_iteration:ExpertIteration",
        "rest": "countdown_selfplay.objectives.expert_iteration:ReST",
        "rae": "countdown_selfplay.objectives.rae:RAE",
        "pass_at_k": "countdown_selfplay.objectives.pass_at_k:PassAtK",
        "maxrl": "countdown_selfplay.objectives.maxrl:MaxRL",
    },
)


def make_objective(name: str, arguments: dict[str, Any] | None = None, **defaults: float) -> Objective:
    """Build the objective called `name` with `arguments`, and those of `defaults` that it takes. Raises ConfigError
    for an unknown argument or a refused value."""
    made: Objective = OBJECTIVES.make(name, arguments, **defaults)
    check_objective(f"The objective '{name}'", made)
    return made


def check_objective(what: str, objective: Any) -> None:
    """Raise ConfigError for an object that is not an objective."""
    from .base import BaseObjective  # torch

    check_part(what, objective, BaseObjective, ("advantages", "loss"))


__all__ = ["OBJECTIVES", "check_objective", "make_objective"]
