"""One process or DDP: every process holds whole weights, and the optimizer steps when the Trainer says so."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from ..config import Role
from ..errors import ConfigError
from ..policies import PolicySet
from ..policies.base import cut_up
from ..policies.narrow import narrow

# (module, batch) -> log-probs and entropies of the batch's completion tokens. The batch holds prompt_ids, prompt_mask,
# completion_ids and completion_mask; the module is the wrapped one, or a reference.
Score = Callable[[nn.Module, dict[str, torch.Tensor]], tuple[torch.Tensor, torch.Tensor]]


class Engine:
    """DDP and a single process; subclasses say in what they differ. Chosen before anything is loaded; `bind` gives it
    the Trainer's accelerator and the policies."""

    name = "ddp"
    optimizer_file = "optimizer.pt"  # what a checkpoint must hold beside schedule, RNG and self-play state
    shards_weights = False
    accelerator: Any
    policies: PolicySet
    wrapped: Callable[[], nn.Module]
    """The module as the engine runs it at the moment, which before training is the policies' own. Set by the trainer,
    whose attribute it is."""

    def bind(self, accelerator: Any, policies: PolicySet | None, max_grad_norm: float | None) -> None:
        """Called once the Trainer is built: is this engine really on, and does it know all that it must? `policies`:
        None for a trainer of one model. `max_grad_norm`: for an engine that clips all roles together."""
        self.accelerator = accelerator
        if policies is not None:
            self.policies = policies
        known, launched = accelerator.num_processes, int(os.environ.get("WORLD_SIZE", "1"))
        if launched != known:  # a launcher started them together; accelerate may leave each on its own
            raise ConfigError(
                f"The launcher started {launched} processes and each knows of {known}: they would train {launched} "
                "separate models; on a machine without GPUs set use_cpu=True, or start one process."
            )
        if policies is not None and self._narrows:
            narrow(policies.module)

    @property
    def _narrows(self) -> bool:
        """Other engines have a precision of their own for what they cut up."""
        return self.name == "ddp" and bool(self.accelerator.mixed_precision == "bf16")

    def place_reference(self, model: nn.Module) -> nn.Module:
        """A frozen copy, where and how its forward pass is run."""
        model = model.to(self.accelerator.device)
        return narrow(model) if self._narrows else model

    @contextmanager
    def whole_weights(self) -> Iterator[None]:
        """Inside the block the unwrapped module can generate, on the process's device: before training, under
        DeepSpeed and FSDP, the Trainer leaves it on the CPU, where an evaluation would run for hours. All processes
        must enter together."""
        module, device = self.policies.module, self.accelerator.device
        home = next(module.parameters()).device
        away = self.wrapped() is module and home.type != device.type and not cut_up(module)
        if away:
            module.to(device)
        try:
            yield
        finally:
            if away:
                module.to(home)

    def no_sync(self, model: nn.Module) -> AbstractContextManager[Any]:
        """For a micro-batch that is not the last one of its optimizer step: gradients stay on their process."""
        return cast("AbstractContextManager[Any]", self.accelerator.no_sync(model))

    def before_backward(
        self, loss: torch.Tensor, role: str, score: Score, wrapped: nn.Module, first: bool
    ) -> torch.Tensor:
        """The loss of a micro-batch of `role`, the `first` of its optimizer step or not, with what the engine needs
        added."""
        return loss

    def before_last_backward(self, optimizer: Any, held: frozenset[str]) -> None:
        """Called before the last backward pass of an optimizer step, for an engine that steps inside it. `held`: roles
        whose weights the step must not move."""

    def clip(self, optimizer: Any, settings: Mapping[str, Role], held: frozenset[str]) -> dict[str, float]:
        """Clip each role's gradient at its own norm before the step and drop those of held roles; the norms before
        the clip, by role."""
        return clip_roles(optimizer, settings, held)

    def full_state(self) -> Mapping[str, Any] | None:
        """The module's whole state dict where no process holds it by itself, else None. All processes must call."""
        return None

    def before_save(self, optimizer: Any) -> None:
        """Called before the stock Trainer writes a checkpoint."""

    def before_first_round(self, optimizer: Any) -> None:
        """Called when training begins at round 0, after the checkpoint that the guard may have written there."""

    def release(self) -> bool:
        """Called before training again in the same process (a rollback of the collapse guard). True if the wrapped
        module is of no further use: every reference to it must go, or it keeps its optimizer's state while the new one
        is built."""
        return False


def clip_roles(
    optimizer: torch.optim.Optimizer, settings: Mapping[str, Role], dropped: frozenset[str] = frozenset()
) -> dict[str, float]:
    """Clip every role's gradient at its own norm and return the norms before the clip. Roles in `dropped` had no
    signal: their gradients are set to None, so that the optimizer leaves their parameters and moments alone."""
    by_role: dict[str, list[torch.nn.Parameter]] = {}
    for group in optimizer.param_groups:
        by_role.setdefault(group["role"], []).extend(p for p in group["params"] if p.grad is not None)
    norms = {}
    for role, parameters in by_role.items():
        if not parameters:
            continue
        limit = settings[role].max_grad_norm or float("inf")
        norm: Any = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        norms[role] = float(norm.full_tensor() if isinstance(norm, DTensor) else norm)  # FSDP2
        if not (math.isfinite(norms[role]) and norms[role] + 1e-6 <= limit):  # else torch would multiply by 1
            torch.nn.utils.clip_grads_with_norm_(parameters, limit, norm)
        if role in dropped:
            for parameter in parameters:
                parameter.grad = None
    return norms
