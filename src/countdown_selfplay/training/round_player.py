"""Rounds of a run: the game, kept samples, windows, and the counts that normalise the losses."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from datasets import Dataset

from ..contract.domain import Row
from ..contract.game import Game
from ..contract.round import Rollout, RoundResult, Turn, mean_reward
from ..random_state import seed_from
from ..statistics.solved import CumulativeSolveRate
from .book import Book, Frame, truncated_rows
from .credit import merged
from .micro_batch import micro_batches, mixed_passes, skips_idle_rows
from .replay import AnswerBuffer, EpisodeReplay, SampleReplay
from .rollouts import Rollouts, completion_table
from .round import PlayedRound
from .window import (
    RoleBatch,
    credited,
    credited_as_sampled,
    fitted,
    sequence_windows,
    sft_tokens,
    trained_counts,
    windows,
)


@dataclass(eq=False)
class RoundPlayer:
    """Plays the rounds of a run, and keeps its game, its counts and its book."""

    game: Game
    rollouts: Rollouts
    frame: Frame
    book: Book
    solve_rate: CumulativeSolveRate
    """Of the data set's problems."""
    held_out: frozenset[str]
    data: Dataset
    """Both: see PlayedRound."""

    def __post_init__(self) -> None:
        turns = self.rollouts.turns
        self.args, self.roles, self.processes = turns.args, turns.roles, turns.processes
        self.learners = self.rollouts.learners

    def begin(self, rows: list[Row]) -> PlayedRound:
        """The next round, with its anchors."""
        return PlayedRound(rows, self.rollouts, self.frame, self.held_out, self.data)

    def play(self, rows: list[Row]) -> list[list[dict[str, Any]]]:
        """Play one round on the anchors in `rows`, the same on all processes, which all call; the micro-batches of
        each of its optimizer steps."""
        start = time.perf_counter()
        played = self.begin(rows)
        result = self.game.play(played, [played.domain.problem(row, i) for i, row in enumerate(rows)])
        played.check(result, self.game)
        metrics = result.metrics
        for role, rollouts in played.rollouts.items():
            metrics |= self._generated(role, rollouts, played)
        if self.args.log_completions:
            logs = completion_table(result.turns, played.logs, list(self.roles), self.processes.gather)
            self.rollouts.trl._logs = logs
        cut: list[dict[str, RoleBatch]] = [{} for _ in range(self.args.steps_per_round)]
        for role, learner in self.learners.items():
            turns = [turn for turn in result.turns if turn.rollout.role == role]
            own, found = self._windows(role, turns, played.rollouts[role])
            metrics |= found
            for window, batch in zip(cut, own, strict=True):
                window[role] = batch
            observe = learner.objective.observe
            if observe is not None:
                observe(mean_reward(turns))
        self._count_solved(result)
        self.frame.rounds += 1
        self.book.add(metrics, result.samples)
        self.book.record("time/round", time.perf_counter() - start)
        return [self._micro_batches(window) for window in cut]

    def _windows(
        self, role: str, turns: Sequence[Turn], rollouts: Sequence[Rollout]
    ) -> tuple[list[RoleBatch], dict[str, Any]]:
        """A player's samples in windows, and their metrics."""
        args, learner, processes = self.args, self.learners[role], self.processes
        rounds, steps, rows = self.frame.rounds, args.steps_per_round, self._rows(role) * args.steps_per_round
        key = (args.seed, "replay", self.frame.attempt, rounds, role)
        batch, replay, metrics = merged(turns, self.rollouts.blank_row(rollouts)), learner.replay, dict[str, Any]()
        if isinstance(replay, SampleReplay):
            episodes = isinstance(replay, EpisodeReplay)
            room = self._samples(role, 1) if episodes else rows
            batch = replay.play(batch, room, rounds, key, processes)
        sequences, filled, dropped = self.roles[role].sequences_per_step, steps, 0
        if batch.sequence_B is not None and not sequences:  # equal parts; without credit they cost no forward pass
            batch, sequences = self._as_all_sampled(role, batch)
        if isinstance(replay, AnswerBuffer):
            metrics[f"{role}/new_answers"] = replay.take_in(batch, rounds, key, processes)
            cut, filled = replay.steps(batch, steps, key, processes)
            dropped = replay.dropped
            metrics |= {f"{role}/steps": filled, f"{role}/owed_steps": replay.owed}
        elif sequences:
            seed = seed_from(*key, "sequences")
            cut, filled, dropped = sequence_windows(batch, rows // steps, steps, sequences, seed, processes)
            metrics[f"{role}/steps"] = filled
        else:
            cut, dropped = self._equal_windows(role, batch, rows, key)
        if replay is not None:
            metrics[f"{role}/replay_samples"] = len(replay.kept)
        if learner.demonstrations is not None:
            own = (learner.demonstrations.beside(w, (*key, i), processes) for i, w in enumerate(cut[:filled]))
            cut = [*own, *cut[filled:]]
        for window in cut[max(filled, 1) :]:
            window.idle = True
        if dropped:
            metrics[f"{role}/dropped_rows"] = dropped
        metrics[f"{role}/trained_samples"] = self._count(role, cut)
        return cut, metrics

    def _samples(self, role: str, processes: int) -> int:
        """What the player samples on one of the processes, in a round or in those whose answers it trains on."""
        rule = self.learners[role].objective.replay
        return self.args.samples(processes)[role] * (rule.rounds or 1 if rule is not None and rule.all_kept else 1)

    def _rows(self, role: str) -> int:
        """Rows of a step on a process: whole micro-batches that hold what the player samples, or keeps."""
        args, world = self.args, self.processes.world
        answers = -(-self._samples(role, world) // args.steps_per_round)
        answers, size = (
            max(answers, -(-self.roles[role].sequences_per_step // world)),
            args.per_device_train_batch_size,
        )
        return -(-answers // size) * size

    def _equal_windows(
        self, role: str, whole: RoleBatch, rows: int, key: tuple[object, ...]
    ) -> tuple[list[RoleBatch], int]:
        """A round's `rows` rows of this process as equal windows; and how many with credit found no place."""
        processes, steps = self.processes, self.args.steps_per_round
        batch, own = fitted(whole, rows, seed_from(*key, "fitted", processes.rank))
        found, *both = processes.total([float(own), *trained_counts(batch), *trained_counts(whole)])
        if both[:3] != both[3:]:
            batch = credited_as_sampled(batch, whole, self._normalization(role), both[:3], both[3:], own)
        cut = windows(batch, steps, seed_from(*key, "windows", processes.rank))
        if len(cut) > 1:
            signals = processes.total([float((w.advantages_B != 0).sum()) + sft_tokens(w) for w in cut])
            for window, signal in zip(cut, signals, strict=True):
                window.has_signal = signal > 0
        return cut, int(found)

    def _as_all_sampled(self, role: str, batch: RoleBatch) -> tuple[RoleBatch, int]:
        """Episodes with credit, with advantages whose mean over them is that over all; and how many of them a step
        has."""
        mine = batch.take(credited(batch).nonzero().flatten())
        own = trained_counts(mine) if mine.rows else [0.0, 0.0, 0.0]
        both = self.processes.total([*own, *trained_counts(batch)])
        if mine.rows:
            batch = credited_as_sampled(mine, batch, self._normalization(role), both[:3], both[3:], 0)
        return batch, max(-(-int(both[0]) // self.args.steps_per_round), 1)

    def _normalization(self, role: str) -> str:
        return str(self.learners[role].objective.normalization)

    def _count(self, role: str, cut: Sequence[RoleBatch]) -> float:
        """Tell each window the counts that its losses are divided by; the trained answers of all windows."""
        world = self.processes.world
        counts = self.processes.total([count for window in cut for count in trained_counts(window)])
        for window, i in zip(cut, range(0, len(counts), 3), strict=True):
            window.counts = tuple(value / world for value in counts[i : i + 3])
        if self.roles[role].sft_coef:
            for window, tokens in zip(cut, self.processes.total([sft_tokens(w) for w in cut]), strict=True):
                window.counts = (*window.counts, tokens / world)
        return sum(counts[::3])

    def _micro_batches(self, window: dict[str, RoleBatch]) -> list[dict[str, Any]]:
        """The micro-batches of a window; each holds the counts that normalise its losses, and names the roles without
        signal."""
        engine = self.rollouts.engine
        idle_last = frozenset(role for role in window if skips_idle_rows(self.learners[role].loss, engine))
        signalless = frozenset(role for role, batch in window.items() if not batch.has_signal)
        idle = frozenset(role for role, batch in window.items() if batch.idle)
        size = self.args.per_device_train_batch_size
        needed = {r: -(-b.rows * (1 if b.sequence_B is None else 2) // size) for r, b in window.items()}
        counts = {role: max(one[role] for one in self.processes.gather([needed])) for role in window}
        cut = micro_batches(
            window, counts, idle_last, self.args.per_device_train_batch_size, engine.policies.shares_prompts
        )
        told = {"signalless": signalless, "idle": idle}
        cut = [batch | told | {"counts": window[batch["role"]].counts} for batch in cut]
        return cut if engine.policies.mixed is None else mixed_passes(cut, told)

    def _count_solved(self, result: RoundResult) -> None:
        """The data set's problems that were ever solved, against all that was generated (SGS 2026, figure 1)."""
        result.metrics["round/generations"] = self.frame.generations
        result.metrics["round/tokens"] = sum(self.frame.tokens.values())
        if result.solved:
            keys, correct, answers = zip(*result.solved, strict=True)
            self.solve_rate.observe(keys, correct, answers[0], self.frame.rounds + 1)
            result.metrics["round/cumulative_solve_rate"] = self.solve_rate.rate

    def _generated(self, role: str, rollouts: Sequence[Rollout], played: PlayedRound) -> dict[str, Any]:
        """Completions and tokens that a player sampled, their lengths, and how many the token limit cut. All moves of
        an episode are one completion, each of which may be cut."""
        answers, moves, tokens, truncated, longest = 0.0, 0.0, 0.0, 0.0, 0
        stops, limit = tuple(self.rollouts.turns.stops(role) or ()), self.roles[role].max_completion_length
        ends = frozenset(self.rollouts.trl.eos_token_ids)
        for rollout in rollouts:
            if not rollout.texts:
                continue
            mask = rollout.tensors["completion_mask"]
            cut = truncated_rows(rollout.tensors["completion_ids"], mask, rollout.texts, ends, stops, limit)
            answers += 0 if id(rollout) in played.later else mask.size(0)
            moves, tokens, truncated = moves + mask.size(0), tokens + float(mask.sum()), truncated + sum(cut)
            longest = max(longest, int(mask.sum(1).max()))
        answers, moves, tokens, truncated = self.processes.total([answers, moves, tokens, truncated])
        self.frame.count(role, int(answers), int(tokens))
        if not answers:
            return {}
        found = {
            f"{role}/completion_length": tokens / answers,
            f"{role}/completion_length_max": max(self.processes.gather([longest])),
            f"{role}/truncated_rate": truncated / moves,
        }
        return found | ({f"{role}/moves": moves / answers} if role in played.episodic else {})
