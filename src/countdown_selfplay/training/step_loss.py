"""Losses of the passes of an optimizer step."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ..distributed.ddp import Engine
from ..distributed.processes import Processes
from ..policies.forward import Watched
from ..policies.mixed_adapters import MixedRows
from .learners import Learner
from .plan import Pass, Step
from .samples import collate


@dataclass(eq=False)
class StepLoss:
    """Scores a pass and sums the losses of its players. It knows the step at hand."""

    learners: Mapping[str, Learner]
    engine: Engine
    processes: Processes
    score: Callable[..., Any]
    """TRL's (model, ids, mask, length) -> log-probs and entropies."""
    step: Step = field(default_factory=lambda: Step((), {}, {}, {}))

    def begin(self, step: Step) -> None:
        """Before the passes of an optimizer step."""
        self.step = step
        for role, counts in step.counts.items():
            self.learners[role].loss.normalise_by(counts, step.measured[role])

    @property
    def held_roles(self) -> frozenset[str]:
        """The roles whose weights this step must not move: a blank pass leaves a gradient of 0, by which momentum
        would."""
        return self.engine.policies.without_signal(self.step.still)

    def __call__(self, model: torch.nn.Module, one: Pass, optimizer: Any, first: bool, last: bool) -> torch.Tensor:
        """The loss of a pass, with what the engine adds to the step's `first` and `last` one. model: the wrapped
        one."""
        loss = self.measure(model, one)
        if last:
            self.engine.before_last_backward(optimizer, self.held_roles)
        return self.engine.before_backward(loss, one.role, self._log_probs, model, first)

    def measure(self, model: torch.nn.Module, one: Pass) -> torch.Tensor:
        """The sum of the losses of the players' rows."""
        policies, device = self.engine.policies, self.engine.accelerator.device
        batches = [collate(samples, device, self.step.group_tokens.get(role, {})) for role, samples in one.parts]
        whole = batches[0] if len(batches) == 1 else collate([s for _, samples in one.parts for s in samples], device)
        policies.activate(one.role)
        if len(batches) > 1:
            width = whole["prompt_ids"].size(1)
            owners = [policies.mixed.number(policies.weights_of[role]) for role, _ in one.parts]
            sizes = [batch["prompt_ids"].shape for batch in batches]
            policies.mixed.begin(MixedRows.of([(i, n, width - w) for i, (n, w) in zip(owners, sizes, strict=True)]))
        imitates = any(self.learners[role].loss.imitates for role, _ in one.parts)
        watched = Watched(model) if imitates else None
        found = list(self._log_probs(watched or model, whole))
        if watched is not None:
            found.append(watched.top1_BT(found[0].size(1)))
        losses, row = [], 0
        for (role, samples), batch in zip(one.parts, batches, strict=True):
            loss, length = self.learners[role].loss, batch["completion_ids"].size(1)
            logps_BT, entropies_BT, *top1 = [value[row : row + len(samples), :length] for value in found]
            if loss.imitates:
                loss.count_accuracy(top1[0], batch)
            losses.append(loss(logps_BT, entropies_BT, batch))
            row += len(samples)
        return functools.reduce(torch.add, losses)

    def _log_probs(self, model: Any, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """(B, T) log-probs and entropies of the completions' tokens under `model`."""
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
        answers = batch["completion_mask"]
        if "sft_mask" in batch:  # the supervised term also reads rows that the objective did not select
            answers = torch.maximum(answers, batch["sft_mask"])
        mask = torch.cat([batch["prompt_mask"], answers], 1)
        logps, entropies, *_ = self.score(model, ids, mask, batch["completion_ids"].size(1), compute_entropy=True)
        return logps, entropies
