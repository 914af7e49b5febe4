"""What a game is handed and what it hands back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from ..countdown import CountdownDomain, Problem
from ..curriculum import CurriculumState
from ..objectives.base import Objective
from ..rewards import ConjecturerReward


@dataclass
class Rollout:
    """What a role sampled for this process's rows: texts, TRL's summed rewards and its tensors (B rows)."""

    role: str
    rows: list[dict[str, Any]]
    texts: list[str]
    rewards_B: torch.Tensor  # NaN where every reward function returned None
    tensors: dict[str, torch.Tensor]
    penalty_B: torch.Tensor | None = None  # subtracted from the rewards before credit (KL as a reward penalty)


@dataclass
class RoleBatch:
    """A role's samples of the round on this process, with their credit.

    has_signal: whether any advantage of the role, on any process, differs from 0. selected_B: bools, the samples that
    the objective trains on; None: all. group: samples per prompt, which lie side by side. mean_reward: over all
    processes, None if no sample had a reward.
    """

    rollout: Rollout
    advantages_B: torch.Tensor
    has_signal: bool
    selected_B: torch.Tensor | None = None
    group: int = 1
    mean_reward: float | None = None


@dataclass
class RoundResult:
    """batches by role; metrics: name -> value, absent when there is none; samples: rows for samples.jsonl; solved:
    (key, correct answers) of each problem that the prover attempted, over all processes."""

    batches: dict[str, RoleBatch]
    metrics: dict[str, Any]
    samples: list[dict[str, Any]] = field(default_factory=list)
    solved: list[tuple[str, int]] = field(default_factory=list)


@dataclass(frozen=True)
class GameSettings:
    """The settings of a round, over all processes. slots: problems that the prover attempts; anchor_slots: of
    these, the least number from the data set; random_slots: of these, new problems from the exact solver;
    proposals: samples of the conjecturer; *_group: samples per problem and per prompt."""

    slots: int
    anchor_slots: int
    proposals: int
    prover_group: int
    conjecturer_group: int
    operands: tuple[int, ...]
    fill: str = "anchor"
    truncate_multiple: int = 1
    duplicate_proposals: str = "reject"
    novelty_window: int = 0
    invalid_reward: float = 0.0
    easy_above: float = 0.8
    hard_below: float = 0.05
    samples: int = 0
    random_slots: int = 0


@dataclass(frozen=True)
class RoundContext:
    """Everything a game may use. `rollout(role, rows)` samples one completion per row with the role's policy;
    `gather(list)` concatenates the processes' lists in rank order, and is called by all processes in the same
    order."""

    settings: GameSettings
    domain: CountdownDomain
    state: CurriculumState
    conjecturer_reward: ConjecturerReward
    objectives: dict[str, Objective]
    excluded: frozenset[str]  # keys of held-out problems
    rollout: Callable[[str, list[dict[str, Any]]], Rollout]
    gather: Callable[[list[Any]], list[Any]]
    seed: int = 0  # of the run
    rank: int = 0
    world: int = 1

    def share(self, items: list[Any]) -> list[Any]:
        """This process's contiguous part of a list that all processes hold."""
        size = len(items) // self.world
        return items[self.rank * size : (self.rank + 1) * size]


class Game(Protocol):
    """One round. `anchors`: problems from the data set, the same list on every process, at least `settings.slots`
    long."""

    def play(self, ctx: RoundContext, anchors: list[Problem]) -> RoundResult: ...
