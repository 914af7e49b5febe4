"""The optimizer steps of a round, inside one step of the Trainer."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import Trainer
from transformers.optimization import GreedyLR

from .micro_batch import WindowLoss


@dataclass(eq=False)
class OptimizerSteps:
    """Accumulates the gradients of each optimizer step, and takes all steps of a round but the last, which the loop of
    the Trainer takes."""

    trl: Any
    """The trainer."""
    window: WindowLoss

    def take(self, model: torch.nn.Module, windows: Sequence[list[dict[str, Any]]]) -> torch.Tensor:
        """The mean loss of the optimizer steps. windows: the micro-batches of each."""
        losses = []
        for number, micro_batches in enumerate(windows):
            if number:
                self._step(model)
            losses.append(self.accumulate(model, self.window.without_empty(micro_batches)))
        return torch.stack(losses).mean()

    def accumulate(self, model: torch.nn.Module, micro_batches: Sequence[dict[str, Any]]) -> torch.Tensor:
        """Run the backward passes of an optimizer step; the sum of their losses. Processes exchange gradients in the
        last one, which DeepSpeed, whose optimizer steps inside it, knows by the flag of accelerate."""
        accelerator, last = self.trl.accelerator, len(micro_batches) - 1
        loss = torch.zeros((), device=accelerator.device)
        for i, inputs in enumerate(micro_batches):
            self.window.begin(inputs, first=i == 0, last=i == last)
            alone = contextlib.nullcontext() if i == last else self.window.engine.no_sync(model)
            accelerator.gradient_state._set_sync_gradients(i == last)
            try:
                with alone:
                    # Not TRL's, which counts micro-batches of equal steps.
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
        by_metric = isinstance(trl.lr_scheduler, (torch.optim.lr_scheduler.ReduceLROnPlateau, GreedyLR))
        if not trl.accelerator.optimizer_step_was_skipped and not by_metric:
            trl.lr_scheduler.step()
        model.zero_grad()
