"""Interface between a run and a game: the round, its rollouts, its turns and its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from .domain import Row

if TYPE_CHECKING:  # a report reads the declarations of games without them
    import numpy as np
    import torch

T = TypeVar("T")


@dataclass
class Rollout:
    """Samples of a player for this process's rows: B = len(rows) x n completions, those of a row adjacent."""

    role: str
    """Player, such as prover or prover/0."""
    rows: list[Row]
    texts: list[str]
    """(B) completions."""
    n: int = 1
    """Samples per row."""
    verdicts: list[Any] | None = None
    """(B) verdicts if the rows were sampled with their problems."""
    rewards_B: torch.Tensor = field(default_factory=lambda: _no_rewards())
    """(B) weighted sums of the TRL reward functions (NaN: all returned None); 0 for samples without a problem."""
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    """Tensors of TRL with B rows; a game does not need them."""
    penalty_B: torch.Tensor | None = None
    """Penalty that is subtracted from rewards before credit (KL as a reward penalty)."""

    @property
    def correct_B(self) -> torch.Tensor | None:
        """(B) correctness as floats; None if nothing was verified."""
        import torch

        return None if self.verdicts is None else torch.tensor([float(v.correct) for v in self.verdicts])


def _no_rewards() -> torch.Tensor:
    import torch

    return torch.zeros(0)


@dataclass
class Turn:
    """Samples of a player with their credit, made by `Round.credit`. A player may have several turns in a round."""

    rollout: Rollout
    advantages_B: torch.Tensor
    """(B) advantages, 0 for samples that are not selected."""
    rewards_B: torch.Tensor | None = None
    """(B) rewards before penalties; NaN: not measured."""
    selected_B: torch.Tensor | None = None
    """(B) bools, the samples that the objective trains on; None: all."""
    imitated_B: torch.Tensor | None = None
    """(B) bools, the samples of the supervised term (`sft_coef`); None: none."""
    group: int = 1
    """Number of adjacent samples that share a baseline."""
    reward_sum: float = 0.0
    """Sum over all processes of the rewards after penalties; samples without a reward are left out."""
    reward_count: int = 0
    """Number of samples with a reward, over all processes."""
    labels: list[str] | None = None
    """(B) one word per sample on its outcome, by which data sets of samples are filtered and balanced."""
    shown: list[str | None] | None = None
    """(B) part of each sample that the next turn shows, None if it is unreadable. Samples of a row that show the same
    part share the mean of their rewards. Field None: the whole texts are shown."""

    @property
    def mean_reward(self) -> float | None:
        """Mean reward over all processes; None if no sample had a reward."""
        return mean_reward([self])


def mean_reward(turns: Sequence[Turn]) -> float | None:
    """Return the mean reward of all samples of `turns` over all processes, or None if none has a reward."""
    count = sum(turn.reward_count for turn in turns)
    return sum(turn.reward_sum for turn in turns) / count if count else None


@dataclass
class RoundResult:
    """Turns, metrics and samples of a round."""

    turns: list[Turn]
    metrics: dict[str, Any]
    """Name -> value, equal on all processes; a metric without a value is absent, never 0."""
    samples: list[Row] = field(default_factory=list)
    """Rows for samples.jsonl."""
    solved: list[tuple[str, int, int]] = field(default_factory=list)
    """(key, correct answers, answers) of each problem that was attempted, over all processes."""


class Round(Protocol):
    """Interface through which a game samples, credits and exchanges data. The trainer makes one per round; tests make
    one from scripted texts (`countdown_selfplay.testing`). All processes call `sample`, `credit` and `gather` in the
    same order, each with any number of rows. A subclass inherits a round of one process without training.

    Example::

        >>> from countdown_selfplay.testing import ScriptedRound
        >>> round = ScriptedRound(lambda player, row, i: f"sample {i}", {"prover": (1, 3)})
        >>> rollout = round.sample("prover", [{"prompt": "1 2 = 3 :"}])
        >>> len(rollout.texts), rollout.texts[0]
        (3, 'sample 0')
        >>> round.credit(rollout, rewards_B=[1.0, 0.0, 0.0]).advantages_B.tolist()
        [1.0, -0.5, -0.5]
    """

    index: int
    """Number of rounds before this one."""
    domain: Any
    held_out: frozenset[str] = frozenset()
    """Keys of the held-out problems, on which the run is evaluated."""
    rank: int = 0
    world: int = 1

    def players(self, kind: str) -> list[str]:
        """Return the players of a role: prover -> ["prover"], or ["prover/0", "prover/1"]; [] if the run has none."""
        ...

    def slots(self, kind: str) -> int:
        """Return the number of problems of a round over all processes: for "conjecturer" those that each player writes
        (proposals_per_round), for every other role those that are attempted (problems_per_round)."""
        ...

    def group(self, role: str) -> int:
        """Return the player's num_generations."""
        ...

    def sample(
        self, role: str, rows: Sequence[Row], n: int | None = None, problems: Sequence[Any] | None = None
    ) -> Rollout:
        """Sample `n` completions (None: the player's num_generations) of each of this process's rows. With `problems`,
        one per row, the domain judges each completion once and the reward functions score it."""
        ...

    def progress(self, rollout: Rollout, weights_B: torch.Tensor | None = None) -> torch.Tensor | None:
        """Return the inner product of the player's last update and the gradient of each right answer's log-prob, (B),
        in nats; NaN for other answers. With `weights_B`, return it for all answers, each times its weight. None
        before the player's first optimizer step."""
        return None

    def credit(
        self,
        rollout: Rollout,
        rewards_B: Any = None,
        correct_B: Any = None,
        kept_B: Any = None,
        group: int | None = None,
        imitate_B: Any = None,
    ) -> Turn:
        """Compute the advantages of a rollout by the player's objective.

        Args:
            rewards_B: Rewards; NaN: not measured, not part of a baseline. None: those of the reward functions.
            correct_B: Correctness of each sample. None: that of the verdicts, if any.
            kept_B: Bools, samples that may be trained on.
            group: Number of adjacent samples that share a baseline. None: those of a row.
            imitate_B: Bools, samples of the supervised term (`sft_coef`), whatever their advantage.
        """
        ...

    def dataset(self) -> list[Any]:
        """Return the problems of the data set, each once, in its order."""
        return []

    def solved_limit(self, role: str) -> int | None:
        """Return the number of correct answers after which a problem is not trained on, or None for no limit."""
        return None

    def gather(self, items: list[T]) -> list[T]:
        """Return the lists of all processes, concatenated in rank order."""
        return items

    def share(self, items: Sequence[T]) -> list[T]:
        """Return this process's part of a list that all processes hold; lengths of parts differ by at most one."""
        return list(items)

    def seed(self, *key: object) -> int:
        """Return a seed that depends on the run's seed, `key`, the round and the attempt, equal on all processes."""
        ...


def from_main(round: Round, values: np.ndarray) -> np.ndarray:
    """Return the first process's `values` on all processes, because results on processors may differ in a bit."""
    import numpy as np

    return np.asarray(round.gather(values.tolist() if round.rank == 0 else []), dtype=float)
