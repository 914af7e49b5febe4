"""The optimizer steps of a round, inside one step of the Trainer."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import Trainer
from transformers.optimization import GreedyLR

from .plan import Step
from .step_loss import StepLoss


@dataclass(eq=False)
class OptimizerSteps:
    """Accumulates the gradients of each optimizer step, and takes all steps of a round but the last, which the loop of
    the Trainer takes."""

    trl: Any
    """The trainer."""
    loss: StepLoss
    skipped: int = 0
    """Steps that the schedule of the round has and the data did not fill."""

    def take(self, model: torch.nn.Module, steps: Sequence[Step]) -> torch.Tensor:
        """The mean loss of the optimizer steps."""
        losses = []
        for number, step in enumerate(steps):
            if number:
                self._step(model)
            losses.append(self.accumulate(model, step))
        self.skipped = self.trl.args.steps_per_round - len(steps)
        return torch.stack(losses).mean()

    def accumulate(self, model: torch.nn.Module, step: Step) -> torch.Tensor:
        """Run the passes of an optimizer step; the sum of their losses. Processes exchange gradients in the last
        backward pass, which DeepSpeed, whose optimizer steps inside it, knows by the flag of accelerate."""
        accelerator, engine = self.trl.accelerator, self.loss.engine
        self.loss.begin(step)
        loss = torch.zeros((), device=accelerator.device)
        with torch.no_grad():
            for one in step.passes:
                if not one.graph:  # on the bare module, for their number differs between processes
                    loss = loss + self.loss.measure(engine.policies.module, one)
        passes = [one for one in step.passes if one.graph]
        for i, one in enumerate(passes):
            last = i == len(passes) - 1
            alone = contextlib.nullcontext() if last else engine.no_sync(model)
            accelerator.gradient_state._set_sync_gradients(last)
            try:
                with alone:
                    # Not TRL's, which counts micro-batches of equal steps.
                    inputs = {"pass": one, "first": i == 0, "last": last}
                    loss = loss + Trainer.training_step(self.trl, model, inputs, None)
            finally:
                accelerator.gradient_state._set_sync_gradients(True)
        return loss

    def _step(self, model: torch.nn.Module) -> None:
        """As the Trainer's loop ends a step."""
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
        """After the last step of a round: bring the schedule to the round's end."""
        for _ in range(self.skipped):
            self._schedule()
