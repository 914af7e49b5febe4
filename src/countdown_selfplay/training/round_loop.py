"""Loop over the rounds of a run, and the optimizer steps of a round."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import Trainer
from transformers.optimization import GreedyLR

from ..contract.domain import Row
from ..contract.game import Game
from ..contract.round import RoundResult, Turn, mean_reward
from ..distributed.ddp import Engine
from ..policies.forward import Watched
from ..random_state import seed_from
from .learners import Learner
from .plan import Pass, Planner, Room, Sample, Step, collate, equal_steps, filled_steps, samples_of
from .rollouts import completion_table
from .round import PlayedRound


class RoundLoop:
    """Loop that plays the rounds of a run and splits each into optimizer steps."""

    def __init__(self, trl: Any) -> None:
        self.trl, self.args, self.roles, self.learners = trl, trl.args, trl.roles, trl.learners
        self.counts, self.buffer, self.processes = trl.counts, trl.buffer, trl.processes
        args, policies, in_step = self.args, trl.policies, trl.engine.name != "ddp"
        rows, tokens = args.per_device_train_batch_size, args.max_tokens_per_micro_batch
        self.planner = Planner(
            Room(rows, tokens, policies.shares_prompts, self.processes.world, in_step),
            self.processes.rank,
            {r: frozenset(policies.shared_by(policies.weights_of[r])) & self.learners.keys() for r in self.learners},
            lambda role: self.learners[role].loss.proportional,
            frozenset(role for role, learner in self.learners.items() if learner.episodes),
            args.drop_signalless_gradients,
            policies.mixed is not None,
        )

    def begin(self, rows: list[Row]) -> PlayedRound:
        """Return the next round, on the anchors in `rows`."""
        return PlayedRound(rows, self.trl.rollouts, self.counts, self.trl.held_out, self.trl.train_dataset)

    def play(self, rows: list[Row]) -> list[Step]:
        """Play one round on the anchors in `rows`, equal on all processes; return its optimizer steps."""
        start, played = time.perf_counter(), self.begin(rows)
        # Propose, admit, solve, reward, credit: games/propose_and_solve.py, or another game.
        game: Game = self.trl.game
        result = game.play(played, [played.domain.problem(row, i) for i, row in enumerate(rows)])
        played.check(result, game)
        metrics = result.metrics
        for role in played.rollouts:
            metrics |= played.generated(role)
        if self.args.log_completions:
            gather = self.processes.gather
            self.trl._logs = completion_table(result.turns, played.logs, list(self.roles), gather)
        # The samples of each player's optimizer steps, then the passes of each step.
        cut: dict[str, list[list[Sample]]] = {}
        for role in self.learners:
            cut[role], trained = self._cut(role, [turn for turn in result.turns if turn.rollout.role == role])
            metrics |= trained
        steps = [self._step(i, cut) for i in range(max([1, *map(len, cut.values())]))]
        for role in self.learners:
            answers = sum(step.counts[role].sequences for step in steps)
            metrics[f"{role}/trained_samples"] = round(answers * self.processes.world)
        self._count_solved(result)
        self.counts.rounds += 1
        self.buffer.rounds.append(metrics)
        self.buffer.samples = result.samples
        self.buffer.record("time/round", time.perf_counter() - start)
        return steps

    def _cut(self, role: str, turns: Sequence[Turn]) -> tuple[list[list[Sample]], dict[str, Any]]:
        """Return the samples of all processes for each of a player's optimizer steps, and metrics of these steps."""
        steps, learner, processes = self.args.steps_per_round, self.learners[role], self.processes
        samples = processes.gather(samples_of(turns, self.counts.rounds, processes.rank << 40))
        key, size, replay = self._key(role), self.roles[role].sequences_per_step, learner.replay
        metrics: dict[str, Any] = {}
        if replay is not None:
            cut = replay.steps(samples, self.counts.rounds, steps if replay.buys_steps or not size else 1, key)
            metrics = replay.logged(role)
            samples = [sample for part in cut for sample in part]
        if size and not (replay and replay.buys_steps):
            cut = filled_steps(samples, size, steps, seed_from(*key, "sequences"))
        elif replay is None:
            cut = equal_steps(samples, steps, seed_from(*key, "windows", 0))
        learner.objective.observe(mean_reward(turns))
        return cut, metrics | ({f"{role}/steps": len(cut)} if size else {})

    def _step(self, index: int, cut: dict[str, list[list[Sample]]]) -> Step:
        """Plan step `index` of the round, without samples of roles that have no further step. `cut`: from `_cut`."""
        here = {role: parts[index] if index < len(parts) else [] for role, parts in cut.items()}
        beside = {
            role: learner.demonstrations((*self._key(role), index))
            for role, learner in self.learners.items()
            if learner.demonstrations is not None and index < len(cut[role])
        }
        through = frozenset(role for role, parts in cut.items() if index >= max(len(parts), 1))
        return self.planner.step(here, beside, through)

    def _key(self, role: str) -> tuple[object, ...]:
        return (self.args.seed, "replay", self.counts.attempt, self.counts.rounds, role)

    def _count_solved(self, result: RoundResult) -> None:
        """Record solved problems of the data set; log their share and the generated samples (SGS, figure 1)."""
        result.metrics["round/generations"] = self.counts.generations
        result.metrics["round/tokens"] = sum(self.counts.tokens.values())
        if result.solved:
            keys, correct, answers = zip(*result.solved, strict=True)
            self.trl.solve_rate.observe(keys, correct, answers[0], self.counts.rounds + 1)
            result.metrics["round/cumulative_solve_rate"] = self.trl.solve_rate.rate


class OptimizerSteps:
    """Optimizer steps of a round inside one step of the Trainer, whose loop takes the last of them."""

    def __init__(self, trl: Any) -> None:
        self.trl, self.processes = trl, trl.processes
        self.learners: Mapping[str, Learner] = trl.learners
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
        return self.engine.before_backward(loss, one.role, self._log_probs, model, first)

    def measure(self, model: torch.nn.Module, one: Pass) -> torch.Tensor:
        """Return the sum of the players' losses over the samples of a pass."""
        policies, device = self.engine.policies, self.trl.accelerator.device
        batches = [collate(samples, device, self.step.group_tokens.get(role, {})) for role, samples in one.parts]
        whole = batches[0] if len(batches) == 1 else collate([s for _, samples in one.parts for s in samples], device)
        policies.activate(one.role)
        if len(batches) > 1:
            width = whole["prompt_ids"].size(1)
            owners = [policies.mixed.number(policies.weights_of[role]) for role, _ in one.parts]
            sizes = [batch["prompt_ids"].shape for batch in batches]
            policies.mixed.begin([(i, n, width - w) for i, (n, w) in zip(owners, sizes, strict=True)])
        imitates = any(self.learners[role].replay is not None for role, _ in one.parts)
        watched = Watched(model) if imitates else None
        measured = list(self._log_probs(watched or model, whole))
        if watched is not None:
            measured.append(watched.top1_BT(measured[0].size(1)))
        losses, row = [], 0
        for (role, samples), batch in zip(one.parts, batches, strict=True):
            learner, length = self.learners[role], batch["completion_ids"].size(1)
            logps_BT, entropies_BT, *top1 = [value[row : row + len(samples), :length] for value in measured]
            if learner.replay is not None:
                learner.loss.count_accuracy(top1[0], batch)
            losses.append(learner.loss(logps_BT, entropies_BT, batch))
            row += len(samples)
        return functools.reduce(torch.add, losses)

    def _log_probs(self, model: Any, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return log-probs and entropies of the completion tokens under `model`, (B, T)."""
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
        answers = batch["completion_mask"]
        if "sft_mask" in batch:  # the supervised term also reads rows that the objective did not select
            answers = torch.maximum(answers, batch["sft_mask"])
        mask, length = torch.cat([batch["prompt_mask"], answers], 1), batch["completion_ids"].size(1)
        score = self.trl._get_per_token_logps_and_entropies
        logps, entropies, *_ = score(model, ids, mask, length, compute_entropy=True)
        return logps, entropies

    def _step(self, model: torch.nn.Module) -> None:
        trl, callbacks = self.trl, self.trl.callback_handler
        trl.control = callbacks.on_pre_optimizer_step(trl.args, trl.state, trl.control)
        trl.optimizer.step()
        trl.control = callbacks.on_optimizer_step(trl.args, trl.state, trl.control)
        if not trl.accelerator.optimizer_step_was_skipped:
            self._schedule()
        model.zero_grad()

    def _schedule(self) -> None:
        if not isinstance(self.trl.lr_scheduler, (torch.optim.lr_scheduler.ReduceLROnPlateau, GreedyLR)):
            self.trl.lr_scheduler.step()

    def finish(self) -> None:
        """Advance the learning-rate schedule past the steps that the round did not take, after its last step."""
        for _ in range(self.skipped):
            self._schedule()
