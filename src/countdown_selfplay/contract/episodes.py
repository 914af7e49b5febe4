"""Answers in moves: an episode is one answer, each of its moves a sample of its own. Pure play, whoever samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import GameError
from .domain import Row, ended
from .round import Rollout


@dataclass
class Episodes(Rollout):
    """Differs from Rollout in that each of its B answers was sampled move by move: a text is the moves of an episode,
    one a line, a verdict that of its last move, and the tensors are those of `moves`."""

    moves: list[Rollout] = field(default_factory=list)
    """What was sampled for the first move, for the second, and so on."""
    episode_of: list[list[int]] = field(default_factory=list)
    """Of each sample in `moves[m]` the index of its episode, ascending."""
    steps: list[list[tuple[Any, str]]] = field(default_factory=list)
    """(B) of each episode its moves: the state before, and what was written."""

    @property
    def lengths(self) -> list[int]:
        """(B) moves of each episode."""
        counts = [0] * len(self.texts)
        for index in self.episode_of:
            for episode in index:
                counts[episode] += 1
        return counts


@dataclass(frozen=True)
class Unfinished:
    """The verdict on an episode that the bound of its domain has cut."""

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
    """`n` episodes of each problem, those of a problem side by side: the first move is sampled `n` times from its row
    of `rows`, then one move for each episode that goes on.

    sample: (move, rows, samples per row) -> what was sampled. anyone: whether a bool holds on any process; all of them
    ask for equally many moves, some for no row. GameError for a domain that does not judge each move once.
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
            raise GameError(
                f"`moved` of {type(domain).__name__} returned {len(outcomes)} results for {len(live)} moves; it must "
                "return one state or verdict a move."
            )
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
