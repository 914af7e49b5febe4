"""Kept samples that are episodes: expert iteration without `reuse` and ReST where answers are given in moves."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from .answer_buffer import Answer
from .replay import SampleReplay, batch_of, flat, kept_of, kept_rows, of_mean_one
from .window import RoleBatch, groups_of, sequences_of, unselected


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
        lengths = np.array([len(answer.rows) for answer in self.kept], dtype=np.int64)
        rows = flat([row for answer in self.kept for row in answer.rows])
        return {"reference": self.reference, "answer_rows": lengths, **rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        rows = iter(kept_of(state))
        self.kept = [Answer(tuple(next(rows) for _ in range(n))) for n in state["answer_rows"].tolist()]


def _episodes(batch: RoleBatch, round_: int) -> list[Answer]:
    """The selected episodes of this process, in the order of its rows."""
    own: dict[int, list[Any]] = {}
    numbers = sequences_of(batch).tolist()
    for place, row in kept_rows(batch, round_):
        own.setdefault(numbers[place], []).append(row)
    return [Answer(tuple(rows)) for rows in own.values()]
