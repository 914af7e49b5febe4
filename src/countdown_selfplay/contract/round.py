"""What a game is handed for a round, and what it hands back."""

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
    """What a player sampled for this process's rows: B = len(rows) x n completions, those of a row side by side."""

    role: str
    """The player, such as prover or prover/0."""
    rows: list[Row]
    texts: list[str]
    """(B) completions."""
    n: int = 1
    """Samples per row."""
    verdicts: list[Any] | None = None
    """(B) verdicts where the rows were sampled with their problems."""
    rewards_B: torch.Tensor = field(default_factory=lambda: _no_rewards())
    """Summed TRL reward functions where there are verdicts (NaN: every function returned None), else 0."""
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    """TRL's, B rows; a game of your own needs none of them."""
    penalty_B: torch.Tensor | None = None
    """Subtracted from rewards before credit (KL as a reward penalty)."""

    @property
    def correct_B(self) -> torch.Tensor | None:
        """(B) the verifier's bits as floats; None where nothing was verified."""
        import torch

        return None if self.verdicts is None else torch.tensor([float(v.correct) for v in self.verdicts])


def _no_rewards() -> torch.Tensor:
    import torch

    return torch.zeros(0)


@dataclass
class Turn:
    """Samples of a player with their credit; made by `Round.credit`. A player may have several in a round."""

    rollout: Rollout
    advantages_B: torch.Tensor
    """(B), 0 where a sample is not selected."""
    rewards_B: torch.Tensor | None = None
    """(B) what was credited; NaN: not measured."""
    selected_B: torch.Tensor | None = None
    """(B) bools, the samples that the objective trains on; None: all."""
    imitated_B: torch.Tensor | None = None
    """(B) bools, the samples of the supervised term (`sft_coef`); None: none."""
    group: int = 1
    """Samples that shared a baseline, side by side."""
    reward_sum: float = 0.0
    """Over all processes, of what the objective was given: after charges, without samples that have no reward."""
    reward_count: int = 0
    """Samples with a reward, over all processes."""
    labels: list[str] | None = None
    """(B) a word per sample for what became of it, by which data sets of samples are filtered and balanced."""
    shown: list[str | None] | None = None
    """(B) what of a sample the next turn is shown, if it is not the whole text: samples of a row that show the same
    are one, whose reward is that of all of them together."""

    @property
    def mean_reward(self) -> float | None:
        """Over all processes; None if no sample had a reward."""
        return mean_reward([self])


def mean_reward(turns: Sequence[Turn]) -> float | None:
    """Of all samples of `turns` that have a reward, over all processes; None if none has."""
    count = sum(turn.reward_count for turn in turns)
    return sum(turn.reward_sum for turn in turns) / count if count else None


@dataclass
class RoundResult:
    """What was played."""

    turns: list[Turn]
    metrics: dict[str, Any]
    """Name -> value, equal on all processes; absent when there is none, never 0 instead."""
    samples: list[Row] = field(default_factory=list)
    """Rows for samples.jsonl."""
    solved: list[tuple[str, int, int]] = field(default_factory=list)
    """(key, correct answers, answers) of each problem that was attempted, over all processes."""


class Round(Protocol):
    """All that a game may use. The frame makes one per round; a test makes one from scripted texts.

    `sample`, `credit` and `gather` are called by all processes in the same order, with any number of rows on each.
    """

    index: int
    """Rounds played before this one."""
    domain: Any
    held_out: frozenset[str]
    """Keys of the evaluation's problems."""
    rank: int
    world: int

    def players(self, kind: str) -> list[str]:
        """prover -> ["prover"], or ["prover/0", "prover/1"]; [] if the run has none."""
        ...

    def slots(self, kind: str) -> int:
        """Problems of a round, over all processes: of "conjecturer" those that each of them writes
        (proposals_per_round), of every other kind those that are attempted (problems_per_round)."""
        ...

    def group(self, role: str) -> int:
        """Its num_generations."""
        ...

    def sample(
        self, role: str, rows: Sequence[Row], n: int | None = None, problems: Sequence[Any] | None = None
    ) -> Rollout:
        """`n` completions (None: the player's num_generations) of each of this process's rows. With `problems`, one
        per row, the domain judges each completion, once, and the reward functions score it."""
        ...

    def progress(self, rollout: Rollout, weights_B: torch.Tensor | None = None) -> torch.Tensor | None:
        """(B) how far the player's last updates move along the gradient of the log-prob of its right answers, in nats;
        NaN for the others. weights_B: of all answers instead, times these. None before its first optimizer step."""
        ...

    def credit(
        self,
        rollout: Rollout,
        rewards_B: Any = None,
        correct_B: Any = None,
        kept_B: Any = None,
        group: int | None = None,
        imitate_B: Any = None,
    ) -> Turn:
        """Advantages by the player's objective. rewards_B: None for those of the reward functions; NaN: not measured,
        takes no part in a baseline. correct_B: None for the verdicts' bits, if there are any. kept_B: bools, samples
        that may be trained on. group: samples, side by side, that share a baseline; None: those of a row. imitate_B:
        bools, samples of the supervised term (`sft_coef`), whatever their advantage."""
        ...

    def dataset(self) -> list[Any]:
        """The problems of the data set, each once, in its order."""
        ...

    def solved_limit(self, role: str) -> int | None:
        """Correct answers after which the player's objective is done with a problem (expert iteration)."""
        ...

    def gather(self, items: list[T]) -> list[T]:
        """All processes' lists, in rank order."""
        ...

    def share(self, items: Sequence[T]) -> list[T]:
        """This process's part of a list that all processes hold; the parts differ in length by one at most."""
        ...

    def seed(self, *key: object) -> int:
        """A seed for private randomness of the game: another one each round and attempt, the same on all
        processes."""
        ...


def from_main(round: Round, values: np.ndarray) -> np.ndarray:
    """What the first process has computed, on all: processors may differ in the last bit."""
    import numpy as np

    return np.asarray(round.gather(values.tolist() if round.rank == 0 else []), dtype=float)
