"""Engine for one process or DDP: every process holds whole weights, and the Trainer steps the optimizer."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, cast

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

from ..config import Role
from ..errors import ConfigError
from ..policies import PolicySet
from ..policies.base import cut_up

# (module, batch) -> log-probs and entropies of the batch's completion tokens. The batch holds prompt_ids, prompt_mask,
# completion_ids and completion_mask; the module is the wrapped one, or a reference.
Score = Callable[[nn.Module, dict[str, torch.Tensor]], tuple[torch.Tensor, torch.Tensor]]


class Engine:
    """Engine of DDP and a single process; subclasses describe their differences. It is chosen before anything is
    loaded; `bind` sets the Trainer's accelerator and the policies."""

    name = "ddp"
    optimizer_file = "optimizer.pt"  # required file of a checkpoint besides schedule, RNG and self-play state
    shards_weights = False
    accelerator: Any
    policies: PolicySet
    wrapped: Callable[[], nn.Module]
    """Function that returns the module as the engine runs it (before training: the policies'). Set by the trainer."""

    def bind(self, accelerator: Any, policies: PolicySet | None, max_grad_norm: float | None) -> None:
        """Connect to the Trainer's accelerator, and check that this engine is active. `policies`: None for a trainer
        of one model. `max_grad_norm`: for an engine that clips all roles together."""
        self.accelerator = accelerator
        if policies is not None:
            self.policies = policies
        known, launched = accelerator.num_processes, int(os.environ.get("WORLD_SIZE", "1"))
        if launched != known:  # a launcher started several, but accelerate may leave each alone
            raise ConfigError(
                f"The launcher started {launched} processes and each knows of {known}: they would train {launched} "
                "separate models; on a machine without GPUs set use_cpu=True, or start one process."
            )
        if policies is not None and self._narrows:
            narrow(policies.module)

    @property
    def _narrows(self) -> bool:
        """Whether frozen layers are converted to bf16; other engines have their own mixed precision."""
        return self.name == "ddp" and bool(self.accelerator.mixed_precision == "bf16")

    def place_reference(self, model: nn.Module) -> nn.Module:
        """Move a frozen copy to this process's device, convert it to its forward pass's precision, and return it."""
        model = model.to(self.accelerator.device)
        return narrow(model) if self._narrows else model

    @contextmanager
    def whole_weights(self) -> Iterator[None]:
        """Move the unwrapped module to the process's device inside the block, so that it can generate: before
        training, under DeepSpeed and FSDP, the Trainer leaves it on the CPU, where an evaluation would take hours. All
        processes must enter together."""
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

    def sampling(self) -> AbstractContextManager[Any]:
        """Prepare the weights with which the active role samples, inside the block."""
        return nullcontext()

    def no_sync(self, model: nn.Module) -> AbstractContextManager[Any]:
        """Disable the exchange of gradients inside the block, for all micro-batches of a step but the last."""
        return cast("AbstractContextManager[Any]", self.accelerator.no_sync(model))

    def before_backward(
        self, loss: torch.Tensor, role: str, score: Score, wrapped: nn.Module, first: bool
    ) -> torch.Tensor:
        """Return the loss of a micro-batch with the engine's additions. `first`: whether it is the step's first."""
        return loss

    def before_last_backward(self, optimizer: Any, held: frozenset[str]) -> None:
        """Prepare the last backward pass of an optimizer step, for an engine that steps inside it. `held`: roles whose
        weights the step must not move."""

    def clip(self, optimizer: Any, settings: Mapping[str, Role], held: frozenset[str]) -> dict[str, float]:
        """Clip each role's gradient, drop those of held roles, and return the norms before clipping."""
        return clip_roles(optimizer, settings, held)

    def full_state(self) -> Mapping[str, Any] | None:
        """Return the module's whole state dict if no process holds it, else None. All processes must call it."""
        return None

    def before_save(self, optimizer: Any) -> None:
        """Prepare a checkpoint of the stock Trainer."""

    def before_first_round(self, optimizer: Any) -> None:
        """Prepare training from round 0, after the guard's optional checkpoint there."""

    def release(self) -> bool:
        """Prepare another training in the same process (a rollback). Returns whether the wrapped module is obsolete:
        then all references to it must be dropped, because it keeps the old optimizer's state in memory."""
        return False


def clip_roles(
    optimizer: torch.optim.Optimizer, settings: Mapping[str, Role], dropped: frozenset[str] = frozenset()
) -> dict[str, float]:
    """Clip each role's gradient to the role's `max_grad_norm` and return the norms before clipping. The gradients of
    roles in `dropped` are set to None, so that the optimizer leaves parameters and moments unchanged."""
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


class NarrowLinear(nn.Linear):
    """Frozen linear layer in bf16, with the outputs and gradients of the float32 layer under autocast, bit for bit.
    The state dict has the float32 values, so that exports do not change. `exact`: name -> float32 tensor, on the CPU,
    of weights that bf16 does not represent exactly."""

    exact: dict[str, torch.Tensor]

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if torch.is_autocast_enabled(input.device.type):
            return super().forward(input)
        bias = None if self.bias is None else self.bias.to(input.dtype)
        return nn.functional.linear(input, self.weight.to(input.dtype), bias)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, value in self.exact.items():  # unless the values have changed since
            if torch.equal(value.bfloat16(), getattr(self, name).detach().cpu()):
                destination[prefix + name] = value


def frozen_linears(module: nn.Module) -> list[nn.Linear]:
    """Return a module's frozen float32 linear layers, except LM heads, which may be tied to embeddings."""
    heads = {part.get_output_embeddings() for part in module.modules() if isinstance(part, PreTrainedModel)}
    linear = [part for part in module.modules() if type(part) is nn.Linear and part not in heads]
    return [part for part in linear if not any(p.requires_grad or p.dtype != torch.float32 for p in part.parameters())]


@torch.no_grad()
def narrow(module: nn.Module) -> nn.Module:
    """Convert the `frozen_linears` of `module` to bf16 in place: bf16 autocast would cast them again at every call."""
    for layer in frozen_linears(module):
        whole = {name: p.data for name, p in layer.named_parameters()}
        layer.bfloat16()
        layer.__class__ = NarrowLinear
        halves = dict(layer.named_parameters())
        layer.exact = {n: w.cpu() for n, w in whole.items() if not torch.equal(halves[n].float(), w)}  # type: ignore
    return module
