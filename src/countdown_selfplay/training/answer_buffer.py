"""Kept answers: right ones that are seen several times each and buy optimizer steps (expert iteration's `reuse`), and
episodes where answers are given in moves (expert iteration without `reuse`, ReST)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..config import Role
from ..errors import ConfigError
from ..objectives.base import Replay
from .replay import Kept, SampleReplay, batch_of, check_reference, flat, kept_of, kept_rows, of_mean_one
from .window import RoleBatch, groups_of, sequences_of, unselected

Gather = Callable[[list[Any]], list[Any]]


@dataclass(frozen=True)
class Answer:
    """A kept answer: a row, or the moves of an episode."""

    rows: tuple[Kept, ...]

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal answers to the same prompts are one."""
        return tuple((tuple(row.prompt), tuple(row.completion)) for row in self.rows)


class AnswerBuffer:
    """The newest `capacity` selected answers of a role, equal ones once, on every process the same list.

    A new answer is owed `reuse` / (answers of a step) steps. What is owed is taken in whole steps of
    `sequences_per_step` answers, drawn with repetition from all that are kept; a remainder, and what a round has no
    steps left for, waits. So each answer is seen `reuse` times on the mean, and a role that solves nothing does not
    step.
    """

    def __init__(self, rule: Replay, settings: Role) -> None:
        if not settings.sequences_per_step:
            raise ConfigError(
                f"`reuse` ({rule.reuse}) of the {settings.role}'s objective says how often an answer is seen, and "
                "`sequences_per_step` how many answers a step has: set it for the role, such as 160."
            )
        self.rule, self.sequences = rule, settings.sequences_per_step
        self.reference = [settings.beta > 0, settings.temperature]
        self.kept: list[Answer] = []
        self.owed = 0.0
        """Steps."""

    def take_in(self, batch: RoleBatch, round_: int, key: Sequence[object], gather: Gather, rank: int) -> int:
        """Keep the round's selected answers of all processes, of a group's distinct ones at most `per_problem`; how
        many there were. Called by all processes."""
        mine = _answers(batch, round_, self.rule.per_problem, random.Random(repr((*key, "chosen", rank))))
        new = gather(mine)
        kept = {answer.key: answer for answer in self.kept}
        for answer in new:
            kept.pop(answer.key, None)
            kept[answer.key] = answer
        self.kept = list(kept.values())
        if self.rule.rounds is not None:
            self.kept = [answer for answer in self.kept if round_ - answer.rows[0].round < self.rule.rounds]
        self.kept = self.kept[-self.rule.capacity :]
        self.owed += len(new) * float(self.rule.reuse or 0.0) / self.sequences
        return len(new)

    def steps(
        self, batch: RoleBatch, most: int, key: Sequence[object], rank: int, world: int
    ) -> tuple[list[RoleBatch], int]:
        """`most` windows for this process, of which the first hold answers and the others none; and how many hold
        some. `batch`: rows of the role, which say what tensors look like."""
        filled = min(int(self.owed + 1e-9), most) if self.kept else 0
        self.owed = max(self.owed - filled, 0.0) if self.kept else 0.0
        cut = []
        for step in range(most):
            drawn: list[Answer] = []
            if step < filled:
                drawn = random.Random(repr((*key, "step", step))).choices(self.kept, k=self.sequences)[rank::world]
            cut.append(_window(batch, drawn, step < filled))
        return cut, filled

    def state_dict(self) -> dict[str, Any]:
        """The kept answers as flat arrays of tokens with their lengths, and the steps that are owed."""
        return {"reference": self.reference, "owed": self.owed, **_flat_answers(self.kept)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """CheckpointError if the kept reference log-probs are not those that this run's settings give."""
        check_reference(state["reference"], self.reference)
        self.kept, self.owed = _answers_of(state), float(state["owed"])


class EpisodeReplay(SampleReplay):
    """Differs from SampleReplay in that what is kept, counted and drawn is an episode, the rows of all its moves: its
    room is a number of episodes, and there is no filling up."""

    kept: list[Answer]

    def play(
        self,
        batch: RoleBatch,
        rows: int,
        round_: int,
        key: tuple[object, ...],
        gather: Callable[[list[Any]], list[Any]],
        rank: int,
        world: int,
    ) -> RoleBatch:
        """Take in the round's selected episodes and hand out this process's share of at most `rows` kept ones, drawn
        without repetition, by `key` alone. `rows`: episodes, of all processes. Called by all processes."""
        self.kept += gather(_episodes(batch, round_))
        if self.rule.rounds is not None:
            self.kept = [answer for answer in self.kept if round_ - answer.rows[0].round < self.rule.rounds]
        self.kept = self.kept[-self.rule.capacity :]
        chosen = self.kept if len(self.kept) <= rows else random.Random(repr(key)).sample(self.kept, rows)
        credit = of_mean_one([row for answer in chosen for row in answer.rows], self.rule.weighted)
        numbered = iter(credit)
        shared = [[next(numbered) for _ in answer.rows] for answer in chosen][rank::world]
        signal = any(row.advantage for row in credit)
        if not shared:
            empty = unselected(batch, 1)
            return replace(empty, sequence_B=groups_of(empty), has_signal=signal)
        flat_rows = [row for own in shared for row in own]
        return batch_of(batch, flat_rows, [i for i, own in enumerate(shared) for _ in own], signal)

    def state_dict(self) -> dict[str, Any]:
        """The rows of the kept episodes as flat arrays of tokens with their lengths, and how many each has."""
        return {"reference": self.reference, **_flat_answers(self.kept)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.kept = _answers_of(state)


def _flat_answers(kept: Sequence[Answer]) -> dict[str, Any]:
    lengths = np.array([len(answer.rows) for answer in kept], dtype=np.int64)
    return {"answer_rows": lengths, **flat([row for answer in kept for row in answer.rows])}


def _answers_of(state: dict[str, Any]) -> list[Answer]:
    """The inverse of `_flat_answers`."""
    rows = iter(kept_of(state))
    return [Answer(tuple(next(rows) for _ in range(n))) for n in state["answer_rows"].tolist()]


def _answers(batch: RoleBatch, round_: int, per_group: int | None, generator: random.Random) -> list[Answer]:
    """The selected answers of this process, in the order of its rows."""
    rows, sequences, groups = kept_rows(batch, round_), sequences_of(batch).tolist(), groups_of(batch).tolist()
    by_group: dict[int, dict[int, list[Kept]]] = {}
    for place, row in rows:
        by_group.setdefault(groups[place], {}).setdefault(sequences[place], []).append(row)
    found: list[Answer] = []
    for answers in by_group.values():
        distinct = list({a.key: a for a in (Answer(tuple(own)) for own in answers.values())}.values())
        if per_group is not None and len(distinct) > per_group:
            distinct = [distinct[i] for i in sorted(generator.sample(range(len(distinct)), per_group))]
        found += distinct
    return found


def _window(batch: RoleBatch, answers: Sequence[Answer], has_signal: bool) -> RoleBatch:
    rows = [row for answer in answers for row in answer.rows]
    sequences = [i for i, answer in enumerate(answers) for _ in answer.rows]
    if not rows:
        empty = unselected(batch, 1)
        empty.sequence_B, empty.has_signal = groups_of(empty), has_signal
        return empty
    return batch_of(batch, rows, sequences, has_signal)


def _episodes(batch: RoleBatch, round_: int) -> list[Answer]:
    """The selected episodes of this process, in the order of its rows."""
    own: dict[int, list[Any]] = {}
    numbers = sequences_of(batch).tolist()
    for place, row in kept_rows(batch, round_):
        own.setdefault(numbers[place], []).append(row)
    return [Answer(tuple(rows)) for rows in own.values()]
