"""What a game, a proposer and a guide are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from .metric import Metric
from .round import Round, RoundResult, Turn


class Game(Protocol):
    """One round, read top to bottom. A game may leave out `metrics`, and both methods on state if it has none. It may
    have `check(args)`: a ConfigError, before a model loads, for a configuration that it cannot be played with;
    `labels`: kind -> the words of its `Turn.labels`; and `to_dict()`: its arguments as plain JSON, with which
    IteratedSelfPlay compares a resume."""

    roles: Mapping[str, str]
    """Kind -> what it does. A config gives each one player or several."""
    metrics: Sequence[Metric]
    """Declarations of what `play` logs."""

    def play(self, round: Round, anchors: Sequence[Any]) -> RoundResult:
        """`anchors`: problems from the data set, the same list on every process, at least as many as the first kind's
        capacity holds groups.

        A game may also have `planned(anchors, capacity, group, world)`, for a dry run: from the number of anchors and,
        by player, the room for samples in a round over all `world` processes and the samples per prompt, how many
        problems a round plays, and the most samples that each player writes in it."""
        ...

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


@dataclass
class Proposal:
    """A candidate for a round."""

    problem: Any
    """None if nothing could be read."""
    reason: str = "ok"
    """Why it may not be played, or "ok"."""
    by: str | None = None
    """The player that wrote it; None for a symbolic proposer."""
    asked: Any = None
    """What it was asked for, or whatever a proposer wants back with the reward: a target, an arm."""
    facts: Mapping[str, bool] = field(default_factory=dict)
    """What the domain found out about it."""


@dataclass(frozen=True)
class Outcome:
    """What a round found out about N proposals and the P problems that M provers answered G times each. Equal on all
    processes."""

    proposals: Sequence[Proposal]
    """(N), in the order of `propose`."""
    rewards_N: np.ndarray
    """NaN: not measured (it found no slot)."""
    problems: Sequence[Any]
    """(P): the proposals that were played, then targets and anchors."""
    problem_of: Sequence[int | None]
    """(N): the index of the proposal's problem in `problems`; None if it was not played."""
    correct_MPG: np.ndarray
    """Every prover's bits."""
    solution_P: Sequence[str | None]
    """A right answer to each problem, if any prover gave one: the first of the first prover that did."""
    solve_rate_over: str = "attempts"
    """What a solve rate is a share of (solve_rates)."""
    trainable_N: np.ndarray | None = None
    """Bools: proposals that their players may be trained on (`frontier_low`, `frontier_high`). None: all."""

    @property
    def solve_rate_P(self) -> np.ndarray:
        return solve_rates(self.correct_MPG, self.solve_rate_over)


def solve_rates(correct_MPG: np.ndarray, over: str = "attempts") -> np.ndarray:
    """(P) solve rates. over="attempts": share of all M x G answers that are right (Multimodal LLM Self-Play, algorithm
    1). over="provers": share of the M provers with a right one among their G, which takes M + 1 values alone (the
    variant that section 3.6 rejects)."""
    return correct_MPG.any(2).mean(0) if over == "provers" else correct_MPG.mean((0, 2))


class Proposer(Protocol):
    """Where a round's candidates come from, and what they teach it. Called by all processes.

    It may also have `metrics`, declarations as a game's, and `logged()`, their values in this round, which is asked
    for after `learn`: name -> value, equal on all processes, absent when there is none. And `targets(round, anchors)`,
    asked before `propose`: the problems that are played beside the proposals, all of them, instead of anchors; slots
    that neither fills stay empty."""

    needs: Sequence[str]
    """Kinds that must have a player."""

    def propose(self, round: Round, anchors: Sequence[Any]) -> list[Proposal]:
        """The candidates of all processes, in rank order."""
        ...

    def learn(self, round: Round, outcome: Outcome) -> list[Turn]:
        """Turns of its players; a bandit moves an arm and returns []."""
        ...

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Guide(Protocol):
    """Scores proposals beside the provers (SGS). It may log as a proposer does, and have `needs`: kinds that must
    have a player."""

    scale: tuple[float, float]
    """Least and greatest score."""

    def score(self, round: Round, proposals: Sequence[Proposal], outcome: Outcome) -> np.ndarray:
        """A score for each proposal of `proposals`, which were played and are the first of `outcome.problems`, in
        that order; NaN: the review failed, or there was none. `outcome` has no rewards yet: they are NaN."""
        ...

    def learn(self, round: Round, outcome: Outcome) -> list[Turn]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...
