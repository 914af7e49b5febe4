"""What a game, a proposer and a guide are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar

from .metric import Metric
from .round import Round, RoundResult, Turn
from .stateful import Stateless

if TYPE_CHECKING:
    import numpy as np

LARGEST_REWARD = 1e12
"""Rewards beyond it are refused: squares of advantages times tokens, summed over a round, must fit float32 (3e38)."""


class BaseGame(Stateless):
    """One round, read top to bottom. A game has `roles` and `play`; the rest is optional, and these are its
    defaults."""

    roles: ClassVar[Mapping[str, str]] = {}
    """Kind -> what it does. A config gives each one player or several."""
    optional_roles: Sequence[str] = ()
    """Kinds that a configuration may leave out."""
    metrics: Sequence[Metric] = ()
    """Declarations of what `play` logs."""
    imitated: Sequence[str] = ()
    """Kinds of which `play` marks samples for a supervised term (`sft_coef`)."""
    labels: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Kind -> the words of its `Turn.labels`."""
    proposer: BaseProposer | None = None
    guide: BaseGuide | None = None
    from_config: Any = None
    """A class method `from_config(args, reward=None)` of a game whose settings are fields of the configuration; None:
    it is built with `game_kwargs`."""

    def play(self, round: Round, anchors: Sequence[Any]) -> RoundResult:
        """`anchors`: problems from the data set, the same list on every process, as many as a round attempts."""
        raise NotImplementedError

    def planned(self, problems: int, group: Mapping[str, int]) -> dict[str, int]:
        """The most samples that each player writes in a round of so many problems; `group`: its samples per prompt, by
        player. Without it: one prompt for each problem of a player's kind. A game with `from_config` has none."""
        raise NotImplementedError

    def check(self, args: Any) -> None:
        """ConfigError, before a model loads, for a configuration that the game cannot be played with."""

    def check_domain(self, domain: Any) -> None:
        """ConfigError, before a model loads, for a domain that the game cannot be played on."""

    def to_dict(self) -> dict[str, Any]:
        """The game's arguments as plain JSON, by which IteratedSelfPlay compares a resume."""
        return {}


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


class BaseProposer(Stateless):
    """Where a round's candidates come from, and what they teach it; called by all processes. A proposer has `propose`;
    the rest is optional, and these are its defaults."""

    needs: Sequence[str] = ()
    """Kinds that must have a player."""
    metrics: Sequence[Metric] = ()
    """Declarations of what `logged` returns."""
    planned_rounds = 0
    """Rounds that its plan is for, if it follows one."""
    fills_slots = False
    """Whether its proposals take every slot of a round."""
    chooses_targets = False
    """Whether `targets` chooses what is played beside the proposals."""

    def check(self, players: Mapping[str, Sequence[str]], domain: Any) -> None:
        """ConfigError for players (kind -> its players) or a domain that do not fit."""

    def targets(self, round: Round, anchors: Sequence[Any]) -> list[Any]:
        """Asked before `propose` where `chooses_targets`: the problems that are played beside the proposals, all of
        them, instead of anchors; slots that neither fills stay empty."""
        raise NotImplementedError

    def more_targets(self, round: Round, count: int) -> list[Any]:
        """Asked after `propose` where `chooses_targets`: at most `count` more, for the slots that are empty still."""
        return []

    def propose(self, round: Round, anchors: Sequence[Any]) -> list[Proposal]:
        """The candidates of all processes, in rank order."""
        raise NotImplementedError

    def learn(self, round: Round, outcome: Outcome) -> list[Turn]:
        """Turns of its players; a bandit moves an arm and returns []."""
        return []

    def logged(self) -> dict[str, Any]:
        """Values of its metrics in this round, asked for after `learn`: equal on all processes, absent without one."""
        return {}

    def files(self) -> dict[str, Any]:
        """Name -> JSON of files beside a checkpoint and beside exported players, for people and for a later run."""
        return {}

    def run_files(self) -> dict[str, Any]:
        """Name -> JSON of files in the run folder."""
        return {}

    def changed(self, state: Mapping[str, Any], keys: Sequence[str]) -> str:
        """How a data set with the problems `keys` differs from the one of a saved `state`, in words; "": it does not,
        or the proposer has none."""
        return ""


class BaseGuide(Stateless):
    """Scores proposals beside the provers (SGS). A guide has `score`; the rest is optional."""

    scale: tuple[float, float] = (-inf, inf)
    """Least and greatest score."""
    needs: Sequence[str] = ()
    """Kinds that must have a player."""
    metrics: Sequence[Metric] = ()
    """Declarations of what `logged` returns."""

    def score(self, round: Round, proposals: Sequence[Proposal], outcome: Outcome) -> np.ndarray:
        """A score for each proposal of `proposals`, which were played and are the first of `outcome.problems`, in
        that order; NaN: the review failed, or there was none. `outcome` has no rewards yet: they are NaN."""
        raise NotImplementedError

    def learn(self, round: Round, outcome: Outcome) -> list[Turn]:
        """Turns of its players."""
        return []

    def logged(self) -> dict[str, Any]:
        """As a proposer's."""
        return {}


Game = BaseGame
Proposer = BaseProposer
Guide = BaseGuide
"""The names in signatures."""
