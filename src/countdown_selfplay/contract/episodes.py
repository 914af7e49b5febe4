"""Answers in moves: an episode is one answer, and each of its moves is a sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import GameError
from .domain import Row, ended
from .round import Rollout


@dataclass
class Episodes(Rollout):
    """Rollout of B answers that were sampled move by move. A text is the moves of an episode, one per line; a verdict
    is that of the last move. `tensors` is empty: the rollouts in `moves` have them."""

    moves: list[Rollout] = field(default_factory=list)
    """Rollouts of the first move, the second, and so on."""
    episode_of: list[list[int]] = field(default_factory=list)
    """Index of the episode of each sample in `moves[m]`, ascending."""
    steps: list[list[tuple[Any, str]]] = field(default_factory=list)
    """Moves of each episode, (B) lists of (state before the move, text)."""

    @property
    def lengths(self) -> list[int]:
        """Number of moves of each episode, (B)."""
        return [len(moves) for moves in self.by_episode(self.episode_of)]

    def by_episode(self, values: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """Return the values of each episode's moves, (B) lists. `values`: one per sample in `moves[m]`, for each m."""
        episodes: list[list[Any]] = [[] for _ in self.texts]
        for of_move, index in zip(values, self.episode_of, strict=True):
            for value, episode in zip(of_move, index, strict=True):
                episodes[episode].append(value)
        return episodes


@dataclass(frozen=True)
class Unfinished:
    """Verdict on an episode that was cut at the domain's `most_moves`."""

    correct: bool = False
    score: float = 0.0
    reason: str = "too_many_moves"


def play_out(
    domain: Any,
    role: str,
    rows: Sequence[Row],
    problems: Sequence[Any],
    n: int,
    sample: Callable[[int, list[Row], int], Rollout],
    anyone: Callable[[bool], bool] = bool,
) -> Episodes:
    """Play `n` episodes of each problem, adjacent in the result. The first move is sampled `n` times from the
    problem's row in `rows`; each later move once per unfinished episode.

    Args:
        sample: (move, rows, samples per row) -> rollout.
        anyone: bool -> whether it is True on any process. All processes sample equally many moves, some without rows.

    Raises:
        GameError: If the domain does not return one result per move.
    """
    repeated = [problem for problem in problems for _ in range(n)]
    states = [domain.begin(problem) for problem in repeated]
    steps: list[list[tuple[Any, str]]] = [[] for _ in repeated]
    verdicts: list[Any] = [None] * len(repeated)
    played = Episodes(role, list(rows), [], n, steps=steps)
    live, todo = list(range(len(repeated))), list(rows)
    for move in range(domain.most_moves):
        rollout = sample(move, todo, n if move == 0 else 1)
        outcomes = domain.moved(rollout.texts, [repeated[i] for i in live], [states[i] for i in live])
        if len(outcomes) != len(live):
            raise GameError(f"`moved` of {type(domain).__name__} gave {len(outcomes)} results for {len(live)} moves.")
        played.moves.append(rollout)
        played.episode_of.append(live)
        going = []
        for i, text, result in zip(live, rollout.texts, outcomes, strict=True):
            steps[i].append((states[i], text.strip()))
            if ended(result):
                verdicts[i] = result
            else:
                states[i] = result
                going.append(i)
        live = going
        if not anyone(bool(live)):
            break
        todo = [domain.move_row(repeated[i], states[i]) for i in live]
    played.texts = ["\n".join(text for _, text in moves) for moves in steps]
    played.verdicts = [Unfinished() if verdict is None else verdict for verdict in verdicts]
    return played
