"""A round from its anchors to its optimizer steps, in the order in which it happens."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from datasets import Dataset

from ..contract.domain import Row
from ..contract.game import Game
from ..contract.round import RoundResult, Turn, mean_reward
from ..random_state import seed_from
from ..statistics.solved import CumulativeSolveRate
from .book import Book, Frame
from .optimizer_steps import OptimizerSteps
from .plan import Planner, Room, Step, equal_steps, filled_steps
from .rollouts import Rollouts, completion_table
from .round import PlayedRound
from .samples import Sample, samples_of


@dataclass(eq=False)
class RoundLoop:
    """Plays the rounds of a run and trains on them, with its game, its counts and its book."""

    game: Game
    rollouts: Rollouts
    frame: Frame
    book: Book
    solve_rate: CumulativeSolveRate
    """Of the data set's problems."""
    held_out: frozenset[str]
    data: Dataset
    """Both: see PlayedRound."""
    optimizer_steps: OptimizerSteps

    def __post_init__(self) -> None:
        turns, engine = self.rollouts.turns, self.rollouts.engine
        self.args, self.roles, self.processes = turns.args, turns.roles, turns.processes
        self.learners, policies, args = self.rollouts.learners, engine.policies, self.args
        in_step = engine.name != "ddp"
        rows, tokens = args.per_device_train_batch_size, args.max_tokens_per_micro_batch
        room = Room(rows, tokens, policies.shares_prompts, self.processes.world, in_step)
        self.planner = Planner(
            room,
            self.processes.rank,
            {r: frozenset(policies.shared_by(policies.weights_of[r])) & self.learners.keys() for r in self.learners},
            lambda role: self.learners[role].loss.proportional,
            frozenset(role for role, learner in self.learners.items() if learner.episodes),
            args.drop_signalless_gradients,
            policies.mixed is not None,
        )

    def begin(self, rows: list[Row]) -> PlayedRound:
        """The next round, with its anchors."""
        return PlayedRound(rows, self.rollouts, self.frame, self.held_out, self.data)

    def train(self, model: torch.nn.Module, rows: list[Row]) -> torch.Tensor:
        """Play one round on the anchors in `rows`, the same on all processes, which all call, and train on it; the
        mean loss of its optimizer steps."""
        return self.optimizer_steps.take(model, self.play(rows))

    def play(self, rows: list[Row]) -> list[Step]:
        """Play one round; its optimizer steps, of which there is at least one."""
        start = time.perf_counter()
        played = self.begin(rows)
        # Propose, admit, solve, reward, credit: games/propose_and_solve.py, or another game.
        result = self.game.play(played, [played.domain.problem(row, i) for i, row in enumerate(rows)])
        played.check(result, self.game)
        metrics = result.metrics
        for role in played.rollouts:
            metrics |= played.generated(role)
        if self.args.log_completions:
            logs = completion_table(result.turns, played.logs, list(self.roles), self.processes.gather)
            self.rollouts.trl._logs = logs
        # What each player's optimizer steps train on, then the passes of each step.
        cut: dict[str, list[list[Sample]]] = {}
        for role in self.learners:
            cut[role], trained = self._cut(role, [turn for turn in result.turns if turn.rollout.role == role])
            metrics |= trained
        steps = [self._step(i, cut) for i in range(max([1, *map(len, cut.values())]))]
        for role in self.learners:
            answers = sum(step.counts[role].sequences for step in steps)
            metrics[f"{role}/trained_samples"] = round(answers * self.processes.world)
        self._count_solved(result)
        self.frame.rounds += 1
        self.book.add(metrics, result.samples)
        self.book.record("time/round", time.perf_counter() - start)
        return steps

    def _cut(self, role: str, turns: Sequence[Turn]) -> tuple[list[list[Sample]], dict[str, Any]]:
        """The samples of a player's optimizer steps, those of all processes, and their metrics."""
        steps, learner, processes = self.args.steps_per_round, self.learners[role], self.processes
        samples = processes.gather(samples_of(turns, self.frame.rounds, processes.rank << 40))
        key, size, replay = self._key(role), self.roles[role].sequences_per_step, learner.replay
        metrics: dict[str, Any] = {}
        if replay is not None:
            cut = replay.steps(samples, self.frame.rounds, steps if replay.buys_steps or not size else 1, key)
            metrics = replay.logged(role)
            samples = [sample for own in cut for sample in own]
        if size and not (replay and replay.buys_steps):
            cut = filled_steps(samples, size, steps, seed_from(*key, "sequences"))
        elif replay is None:
            cut = equal_steps(samples, steps, seed_from(*key, "windows", 0))
        if learner.objective.observe is not None:
            learner.objective.observe(mean_reward(turns))
        return cut, metrics | ({f"{role}/steps": len(cut)} if size else {})

    def _step(self, index: int, cut: dict[str, list[list[Sample]]]) -> Step:
        """Step `index` of the round. A role that has no more steps has none of its samples in it."""
        here = {role: own[index] if index < len(own) else [] for role, own in cut.items()}
        beside = {
            role: learner.demonstrations.drawn((*self._key(role), index))
            for role, learner in self.learners.items()
            if learner.demonstrations is not None and index < len(cut[role])
        }
        through = frozenset(role for role, own in cut.items() if index >= max(len(own), 1))
        return self.planner.step(here, beside, through)

    def _key(self, role: str) -> tuple[object, ...]:
        """Of the private randomness that cuts a round."""
        return (self.args.seed, "replay", self.frame.attempt, self.frame.rounds, role)

    def _count_solved(self, result: RoundResult) -> None:
        """The data set's problems that were ever solved, against all that was generated (SGS 2026, figure 1)."""
        result.metrics["round/generations"] = self.frame.generations
        result.metrics["round/tokens"] = sum(self.frame.tokens.values())
        if result.solved:
            keys, correct, answers = zip(*result.solved, strict=True)
            self.solve_rate.observe(keys, correct, answers[0], self.frame.rounds + 1)
            result.metrics["round/cumulative_solve_rate"] = self.solve_rate.rate
