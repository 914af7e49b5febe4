"""The interface of a generation backend, and the one that samples from the trained model itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..config import JointSelfPlayConfig, Role
from ..distributed.processes import Processes
from ..policies import PolicySet


@dataclass(frozen=True)
class Turns:
    """All that the backends know of the turns that they sample. ends: ids that end a completion of any role. stops:
    the strings that end one of this role. key: the parts of the seed that differ from turn to turn, beside the role.
    record: takes a metric of the round at hand."""

    args: JointSelfPlayConfig
    roles: Mapping[str, Role]
    policies: PolicySet
    processes: Processes
    tokenizer: Any
    ends: Sequence[int]
    stops: Callable[[str], list[str] | None]
    key: Callable[[], tuple[object, ...]]
    record: Callable[[str, float], None]


class Sampler(ABC):
    """A backend. Built once, at the end of the trainer's constructor; then, for every turn of a role, `begin` and one
    generation through TRL."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns

    @abstractmethod
    def begin(self, role: str, step: int) -> dict[str, Any]:
        """Make the weights that sample those of `role`. Returns the attributes that TRL's trainer must have while the
        role samples. `step`: rounds so far. Called by all processes."""

    def as_model(self, role: str, how: Mapping[str, Any]) -> Any:
        """What an evaluation of `role`, asked as `how` says, calls `generate` of. Called by all processes."""
        return self.turns.policies.module


class Generate(Sampler):
    """The trained model's own `generate`. It samples from the very weights and code that the loss uses, so there is no
    other policy to correct for, and no second pass for log-probs."""

    def begin(self, role: str, step: int) -> dict[str, Any]:
        return {}
