"""Interfaces of games, proposers and guides."""

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
"""Largest absolute reward: squares of advantages times tokens, summed over a round, must fit float32 (3e38)."""


class BaseGame(Stateless):
    """Base class of games, which define the course of a round. A subclass sets `roles` and implements
    `play`; the rest is optional.

    Example::

        >>> from countdown_selfplay.testing import ScriptedRound
        >>> class SolveOnly(BaseGame):
        ...     roles = {"prover": "solves the problems of the data set"}
        ...     def play(self, round, anchors):
        ...         rows = [round.domain.prove_row(problem) for problem in round.share(anchors)]
        ...         rollout = round.sample("prover", rows, problems=round.share(anchors))
        ...         return RoundResult([round.credit(rollout)], metrics={})
        >>> round = ScriptedRound(lambda player, row, i: "1 + 2", {"prover": (2, 4)})
        >>> len(SolveOnly().play(round, round.domain.random(2, 0, frozenset())).turns[0].rollout.texts)
        8
    """

    roles: ClassVar[Mapping[str, str]] = {}
    """Role -> its task. A config gives each role one player or several."""
    optional_roles: Sequence[str] = ()
    """Roles that a configuration may omit."""
    metrics: Sequence[Metric] = ()
    """Declarations of the metrics that `play` logs."""
    imitated: Sequence[str] = ()
    """Roles whose samples `play` marks for a supervised term (`sft_coef`)."""
    labels: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Role -> possible values of its `Turn.labels`."""
    proposer: BaseProposer | None = None
    guide: BaseGuide | None = None
    from_config: Any = None
    """Class method `from_config(args, reward=None)` of a game whose settings are fields of the configuration. None:
    the game is built with `game_kwargs`."""

    def play(self, round: Round, anchors: Sequence[Any]) -> RoundResult:
        """Play a round. `anchors`: problems from the data set, the same list on every process."""
        raise NotImplementedError

    def planned(self, problems: int, group: Mapping[str, int]) -> dict[str, int]:
        """Return the largest number of samples that each player writes in a round of `problems` problems. `group`:
        samples per prompt, by player. Default: one sample per proposal of a conjecturer, else a prompt per slot."""
        raise NotImplementedError

    def check(self, args: Any) -> None:
        """Raise ConfigError, before a model loads, for a configuration that the game does not support."""

    def check_domain(self, domain: Any) -> None:
        """Raise ConfigError, before a model loads, for a domain that the game does not support."""

    def to_dict(self) -> dict[str, Any]:
        """Return the game's arguments as plain JSON; IteratedSelfPlay compares them at a resume."""
        return {}


@dataclass
class Proposal:
    """Candidate problem of a round."""

    problem: Any
    """Problem that was parsed; None if the proposal is unreadable."""
    reason: str = "ok"
    """Reason why the proposal may not be played, or "ok"."""
    by: str | None = None
    """Player that wrote the proposal; None for a symbolic proposer."""
    request: Any = None
    """Request that the proposal answers, or any value that identifies the proposal in `learn`: a target, an arm."""
    facts: Mapping[str, bool] = field(default_factory=dict)
    """Properties of the problem that `Domain.check` returned."""


@dataclass(frozen=True)
class Outcome:
    """Result of a round: N proposals, and P problems that M provers answered G times each. Equal on all processes."""

    proposals: Sequence[Proposal]
    """(N) proposals, in the order of `propose`."""
    rewards_N: np.ndarray
    """Rewards of the proposals; NaN: not measured, because the proposal got no slot."""
    problems: Sequence[Any]
    """(P) problems: the proposals that were played, then random problems, then targets or anchors."""
    problem_of: Sequence[int | None]
    """Index of each proposal's problem in `problems`, (N); None if it was not played."""
    correct_MPG: np.ndarray
    """Correctness of each answer of each prover."""
    solution_P: Sequence[str | None]
    """First right answer to each problem, of the first prover that has one, or None."""
    solve_rate_over: str = "attempts"
    """Denominator of a solve rate (`solve_rates`)."""
    trainable_N: np.ndarray | None = None
    """Mask of the proposals on which their players may train (`frontier_low`, `frontier_high`). None: all."""

    @property
    def solve_rate_P(self) -> np.ndarray:
        return solve_rates(self.correct_MPG, self.solve_rate_over)


def solve_rates(correct_MPG: np.ndarray, over: str = "attempts") -> np.ndarray:
    """Return solve rates, (P). over="attempts": share of all M x G answers that are right (Multimodal LLM Self-Play,
    algorithm 1). over="provers": share of the M provers with a right answer among their G, which takes only M + 1
    values (the variant that section 3.6 rejects)."""
    return correct_MPG.any(2).mean(0) if over == "provers" else correct_MPG.mean((0, 2))


class BaseProposer(Stateless):
    """Base class of proposers, which supply a round's candidates and learn from their outcome. All processes call
    every method. A subclass implements `propose`; the rest is optional.

    Example::

        >>> class Uniform(BaseProposer):
        ...     def propose(self, round, anchors):
        ...         problems = round.domain.random(round.slots("prover"), round.seed("uniform"), round.held_out)
        ...         return [Proposal(problem) for problem in problems]
        >>> from countdown_selfplay.testing import ScriptedRound
        >>> round = ScriptedRound(lambda player, row, i: "1 + 2", {"prover": (4, 2)})
        >>> [proposal.reason for proposal in Uniform().propose(round, [])]
        ['ok', 'ok', 'ok', 'ok']
    """

    needs: Sequence[str] = ()
    """Roles that must have a player."""
    metrics: Sequence[Metric] = ()
    """Declarations of the metrics that `logged` returns."""
    planned_rounds = 0
    """Number of rounds of the proposer's plan; 0: it has no plan."""
    fills_slots = False
    """Whether the proposer's problems take every slot of a round."""
    chooses_targets = False
    """Whether `targets` chooses the problems that are played in addition to the proposals."""

    def check(self, players: Mapping[str, Sequence[str]], domain: Any) -> None:
        """Raise ConfigError for players (role -> its players) or a domain that the proposer does not support."""

    def targets(self, round: Round, anchors: Sequence[Any]) -> list[Any]:
        """Return all problems to play in addition to the proposals, in place of anchors. Called before `propose` if
        `chooses_targets`. Slots left over by `targets`, `propose` and `more_targets` stay empty."""
        raise NotImplementedError

    def more_targets(self, round: Round, count: int) -> list[Any]:
        """Return at most `count` more targets for empty slots. Called after `propose` if `chooses_targets`."""
        return []

    def propose(self, round: Round, anchors: Sequence[Any]) -> list[Proposal]:
        """Return the candidates of all processes, in rank order."""
        raise NotImplementedError

    def learn(self, round: Round, outcome: Outcome) -> list[Turn]:
        """Learn from a round; return the turns of the proposer's players, [] if no model is trained."""
        return []

    def logged(self) -> dict[str, Any]:
        """Return the proposer's metrics of the round, equal on all processes; called after `learn`. A metric without a
        value is left out."""
        return {}

    def files(self) -> dict[str, Any]:
        """Return name -> JSON of files that are saved with checkpoints and exported players."""
        return {}

    def run_files(self) -> dict[str, Any]:
        """Return name -> JSON of files in the run folder."""
        return {}

    def changed(self, state: Mapping[str, Any], keys: Sequence[str]) -> str:
        """Describe how a data set with the problems `keys` differs from that of a saved `state`, or return ""."""
        return ""


class BaseGuide(Stateless):
    """Base class of guides, which score proposals in addition to the provers (SGS). A subclass implements `score`; the
    rest is optional.

    Example::

        >>> import numpy as np
        >>> class ShortFirst(BaseGuide):
        ...     scale = (0.0, 1.0)
        ...     def score(self, round, proposals, outcome):
        ...         return np.array([1 / len(str(proposal.problem)) for proposal in proposals])
        >>> ShortFirst().score(None, [Proposal("3+5")], None).shape
        (1,)
    """

    scale: tuple[float, float] = (-inf, inf)
    """Lowest and highest score."""
    needs: Sequence[str] = ()
    """Roles that must have a player."""
    metrics: Sequence[Metric] = ()
    """Declarations of the metrics that `logged` returns."""

    def score(self, round: Round, proposals: Sequence[Proposal], outcome: Outcome) -> np.ndarray:
        """Return one score per proposal; NaN: the review failed, or there was none. `proposals` were played and are
        the first of `outcome.problems`, in that order. `outcome.rewards_N` is still NaN."""
        raise NotImplementedError

    def learn(self, round: Round, outcome: Outcome) -> list[Turn]:
        """Learn from a round; return the turns of the guide's players."""
        return []

    def logged(self) -> dict[str, Any]:
        """Return the guide's metrics of the round, as `BaseProposer.logged` does."""
        return {}


Game = BaseGame
Proposer = BaseProposer
Guide = BaseGuide
"""Names for annotations."""
