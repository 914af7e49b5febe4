"""The loss of one micro-batch of one role: rows with credit get a gradient, the others are only measured."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from ..policies.forward import Watched
from .cut import split_idle, trim
from .host import Host


def role_loss(trainer: Host, model: torch.nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
    """Forward pass and loss of a micro-batch, as the engine wants it.

    Where the loss is proportional to the advantages, a sample with advantage 0 has gradient 0: its forward pass runs
    without a graph, for entropy and the other metrics, and no backward pass follows. The gradient is the same.
    `model`: the wrapped one; passes without a graph go to the bare module, for their number differs between processes.
    """
    role = inputs["role"]
    if is_empty(trainer, inputs):
        return torch.zeros((), device=trainer.accelerator.device, requires_grad=True)
    batch = {name: value for name, value in inputs.items() if torch.is_tensor(value)}
    trainer.losses[role].normalise_by(*inputs["counts"])
    trainer.policies.activate(role)
    if skips_idle_rows(trainer, role):
        batch, idle = split_idle(batch)
        if idle is not None:
            with torch.no_grad():
                _scored(trainer, trainer.policies.module, role, trim(idle))
    loss = _scored(trainer, model, role, trim(batch))
    if trainer.last_of_window:
        trainer.engine.before_last_backward(trainer.optimizer, held_roles(trainer))
    score = partial(log_probs, trainer)
    return trainer.engine.before_backward(loss, role, score, model, trainer.first_of_window)


def held_roles(trainer: Host) -> frozenset[str]:
    """The roles whose weights this round must not move."""
    dropped = trainer.args.drop_signalless_gradients
    return trainer.policies.without_signal(trainer.signalless) if dropped else frozenset()


def is_empty(trainer: Host, inputs: dict[str, Any]) -> bool:
    """Has a micro-batch nothing to compute, on all processes? DDP sums gradients in a window's last backward pass:
    with several processes, only a window that all roles are through with is passed over."""
    alone, idle = trainer.processes.world == 1, inputs["idle"]
    if trainer.engine.name != "ddp":
        return False
    through = inputs["role"] in idle and (alone or idle == frozenset(trainer.trained))
    if through and trainer.args.drop_signalless_gradients:
        return True
    if "sequence" not in inputs or not alone:  # the empty end of a window of episodes: others may have rows there
        return False
    return not inputs["completion_mask"].any() and not ("sft_mask" in inputs and inputs["sft_mask"].any())


def skips_idle_rows(trainer: Host, role: str) -> bool:
    """One process and DDP only. Where weights are sharded (ZeRO-3, FSDP2) every process must run the same passes;
    under ZeRO-1 and 2 a pass beside DeepSpeed's wrapper is untested: all rows go through it."""
    return trainer.losses[role].proportional and trainer.engine.name == "ddp"


def _scored(trainer: Host, model: torch.nn.Module, role: str, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    loss = trainer.losses[role]
    watched = Watched(model) if loss.imitates else None
    logps, entropies = log_probs(trainer, watched or model, batch)
    if watched is not None:
        loss.count_accuracy(watched.top1_BT(logps.size(1)), batch)
    return loss(logps, entropies, batch)


def log_probs(
    trainer: Host, model: torch.nn.Module | Watched, batch: dict[str, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """(B, T) log-probs and entropies of the completions' tokens under `model`."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    answers = batch["completion_mask"]
    if "sft_mask" in batch:  # the supervised term also reads rows that the objective did not select
        answers = torch.maximum(answers, batch["sft_mask"])
    mask = torch.cat([batch["prompt_mask"], answers], 1)
    length = batch["completion_ids"].size(1)
    logps, entropies, *_ = trainer._get_per_token_logps_and_entropies(model, ids, mask, length, compute_entropy=True)
    return logps, entropies
