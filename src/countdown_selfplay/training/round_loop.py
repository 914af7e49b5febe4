"""Loop over the rounds of a run, and the optimizer steps of a round."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from transformers import Trainer
from transformers.optimization import GreedyLR

from ..contract.domain import Row
from ..contract.round import RoundResult, mean_reward
from ..distributed.ddp import Engine
from .losses import log_probs, pass_loss
from .plan import Pass, Sample, Step, planner_of, samples_of
from .rollouts import completion_table
from .round import PlayedRound


class RoundLoop:
    """Loop that plays the rounds of a run and splits each into optimizer steps."""

    def __init__(self, trl: Any) -> None:
        self.trl, self.args, self.roles, self.learners = trl, trl.args, trl.roles, trl.learners
        self.counts, self.buffer, self.processes = trl.counts, trl.buffer, trl.processes
        self.planner = planner_of(trl)

    def begin(self, rows: list[Row]) -> PlayedRound:
        """Return the next round, on the anchors in `rows`."""
        return PlayedRound(rows, self.trl.rollouts, self.counts, self.trl.held_out, self.trl.train_dataset)

    def play(self, rows: list[Row]) -> list[Step]:
        """Play one round on the anchors in `rows`, equal on all processes; return its optimizer steps."""
        start, played = time.perf_counter(), self.begin(rows)
        # Propose, admit, solve, reward, credit: games/propose_and_solve.py, or another game.
        problems = [played.domain.problem(row, i) for i, row in enumerate(rows)]
        result: RoundResult = self.trl.game.play(played, problems)
        played.check(result, self.trl.game)
        metrics = result.metrics
        for role in played.rollouts:
            metrics |= played.generated(role)
        if self.args.log_completions:
            self.trl._logs = completion_table(result.turns, played.logs, list(self.roles), self.processes.gather)
        # The samples of each player's optimizer steps, then the passes of each step.
        cut: dict[str, list[list[Sample]]] = {}
        beside: dict[str, Any] = {}
        for role, learner in self.learners.items():
            turns = [turn for turn in result.turns if turn.rollout.role == role]
            samples = self.processes.gather(samples_of(turns, self.counts.rounds, self.processes.rank << 40))
            key = (self.args.seed, "replay", self.counts.attempt, self.counts.rounds, role)
            sizes = self.counts.rounds, self.args.steps_per_round
            cut[role], trained = learner.cut(samples, self.roles[role], *sizes, key)
            beside[role] = learner.demonstrations, key
            learner.objective.observe(mean_reward(turns))
            metrics |= trained
        steps = self.planner.steps(cut, beside)
        self.counts.rounds += 1
        metrics |= {"round/generations": self.counts.generations, "round/tokens": sum(self.counts.tokens.values())}
        if result.solved:  # problems of the data set (SGS, figure 1)
            keys, correct, answers = zip(*result.solved, strict=True)
            self.trl.solve_rate.observe(keys, correct, answers[0], self.counts.rounds)
            metrics["round/cumulative_solve_rate"] = self.trl.solve_rate.rate
        self.buffer.rounds.append(metrics)
        self.buffer.samples = result.samples
        self.buffer.record("time/round", time.perf_counter() - start)
        return steps


class OptimizerSteps:
    """Optimizer steps of a round inside one step of the Trainer, whose loop takes the last of them."""

    def __init__(self, trl: Any) -> None:
        self.trl, self.processes, self.learners = trl, trl.processes, trl.learners
        self.engine: Engine = trl.engine
        self.step = Step((), {}, {}, {})
        self.skipped = 0  # steps of the learning-rate schedule that the round does not take

    def take(self, model: torch.nn.Module, steps: Sequence[Step]) -> torch.Tensor:
        """Take all optimizer steps but the last, whose gradients it leaves to the Trainer; return the mean loss."""
        losses = []
        for number, step in enumerate(steps):
            if number:
                self._step(model)
            losses.append(self.accumulate(model, step))
        self.skipped = self.trl.args.steps_per_round - len(steps)
        return torch.stack(losses).mean()

    def begin(self, step: Step) -> None:
        """Set the counts that normalise the losses of an optimizer step, before its passes."""
        self.step = step
        for role, counts in step.counts.items():
            self.learners[role].loss.normalise_by(counts, step.measured[role])

    def accumulate(self, model: torch.nn.Module, step: Step) -> torch.Tensor:
        """Run the passes of an optimizer step; return the sum of their losses. Processes exchange gradients in the
        last backward pass; DeepSpeed, which steps inside that pass, recognises it by accelerate's flag."""
        accelerator, engine = self.trl.accelerator, self.engine
        self.begin(step)
        loss = torch.zeros((), device=accelerator.device)
        with torch.no_grad():
            for one in step.passes:
                if not one.graph:  # on the unwrapped module, because the number of passes differs between processes
                    loss = loss + self.measure(engine.policies.module, one)
        passes = [one for one in step.passes if one.graph]
        for i, one in enumerate(passes):
            last = i == len(passes) - 1
            inputs = {"one": one, "first": i == 0, "last": last}
            accelerator.gradient_state._set_sync_gradients(last)
            try:
                with contextlib.nullcontext() if last else engine.no_sync(model):
                    # Not TRL's step, whose normaliser assumes micro-batches of equal steps.
                    loss = loss + Trainer.training_step(self.trl, model, inputs, None)
            finally:
                accelerator.gradient_state._set_sync_gradients(True)
        return loss

    @property
    def held_roles(self) -> frozenset[str]:
        """Roles whose weights this step must not move; with a gradient of 0, momentum would still move them."""
        return self.engine.policies.without_signal(self.step.still)

    def loss(self, model: torch.nn.Module, one: Pass, first: bool, last: bool) -> torch.Tensor:
        """Return the loss of a pass, with the engine's hooks for the `first` and the `last` pass of a step."""
        loss = self.measure(model, one)
        if last:
            self.engine.before_last_backward(self.trl.optimizer, self.held_roles)
        return self.engine.before_backward(loss, one.role, partial(log_probs, self.trl), model, first)

    def measure(self, model: torch.nn.Module, one: Pass) -> torch.Tensor:
        """Return the sum of the players' losses over the samples of a pass."""
        return pass_loss(self.trl, model, one, self.step.group_tokens)

    def _step(self, model: torch.nn.Module) -> None:
        trl, callbacks = self.trl, self.trl.callback_handler
        trl.control = callbacks.on_pre_optimizer_step(trl.args, trl.state, trl.control)
        trl.optimizer.step()
        trl.control = callbacks.on_optimizer_step(trl.args, trl.state, trl.control)
        if not trl.accelerator.optimizer_step_was_skipped:
            self.schedule(1)
        model.zero_grad()

    def schedule(self, steps: int) -> None:
        """Advance the learning-rate schedule by `steps` optimizer steps."""
        if not isinstance(self.trl.lr_scheduler, (torch.optim.lr_scheduler.ReduceLROnPlateau, GreedyLR)):
            for _ in range(steps):
                self.trl.lr_scheduler.step()
