"""One process or DDP: every process holds whole weights, and the optimizer steps when the Trainer says so."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch import nn

from ..errors import ConfigError
from ..policies.optimization import clip_roles
from ..policies.sharded_weights import cut_up
from .exit import pause_at_exit

if TYPE_CHECKING:
    from ..training.trainer import JointConjecturerProverTrainer


def refuse_strangers(trainer: JointConjecturerProverTrainer) -> None:
    """Processes that a launcher started together must know of each other; accelerate may leave each on its own."""
    launched, known = int(os.environ.get("WORLD_SIZE", "1")), trainer.accelerator.num_processes
    if launched != known:
        raise ConfigError(
            f"The launcher started {launched} processes and each knows of {known}: they would train {launched} "
            "separate models; on a machine without GPUs set use_cpu=True, or start one process."
        )


@contextmanager
def on_device(trainer: JointConjecturerProverTrainer) -> Iterator[None]:
    """Before training, under DeepSpeed and FSDP, the Trainer leaves the model on the CPU, where an evaluation would
    run for hours: inside the block it is on the process's device."""
    module, device = trainer.policies.module, trainer.accelerator.device
    home = next(module.parameters()).device
    away = trainer.model_wrapped is trainer.model and home.type != device.type and not cut_up(module)
    if away:
        module.to(device)
    try:
        yield
    finally:
        if away:
            module.to(home)


class Engine:
    """DDP and a single process. Subclasses say in what they differ."""

    name = "ddp"
    optimizer_file = "optimizer.pt"  # what a checkpoint must hold beside schedule, RNG and self-play state
    shards_weights = False

    def check(self, trainer: JointConjecturerProverTrainer) -> None:
        """Called once the Trainer is built: is this engine really on, and does it know all that it must?"""
        refuse_strangers(trainer)
        if trainer.accelerator.num_processes > 1:
            pause_at_exit()

    def place_reference(self, model: nn.Module, trainer: JointConjecturerProverTrainer) -> nn.Module:
        """A frozen copy, where and how its forward pass is run."""
        return model.to(trainer.accelerator.device)

    @contextmanager
    def whole_weights(self, trainer: JointConjecturerProverTrainer) -> Iterator[None]:
        """Inside the block the unwrapped module can generate. All processes must enter together."""
        with on_device(trainer):
            yield

    def before_backward(self, trainer: JointConjecturerProverTrainer, loss: Any, role: str, model: nn.Module) -> Any:
        """The loss of a micro-batch, with what the engine needs added."""
        return loss

    def held(self, trainer: JointConjecturerProverTrainer) -> frozenset[str]:
        """The roles whose weights this round must not move: none of the roles that play them has a signal."""
        if not trainer.args.drop_signalless_gradients:
            return frozenset()
        shared = [trainer.policies.shared_by(name) for name in trainer.policies.weight_names]
        return frozenset(roles[0] for roles in shared if set(roles) <= trainer.signalless)

    def clip(self, trainer: JointConjecturerProverTrainer) -> dict[str, float]:
        """Clip each role's gradient at its own norm before the step and drop those of held roles; the norms before
        the clip, by role."""
        optimizer: Any = trainer.optimizer
        return clip_roles(optimizer, trainer.roles, self.held(trainer))

    def full_state(self, trainer: JointConjecturerProverTrainer) -> Mapping[str, Any] | None:
        """The module's whole state dict where no process holds it by itself, else None. All processes must call."""
        return None

    def before_save(self, trainer: JointConjecturerProverTrainer) -> None:
        """Called before the stock Trainer writes a checkpoint."""

    def before_first_round(self, trainer: JointConjecturerProverTrainer) -> None:
        """Called when training begins at round 0, after the checkpoint that the guard may have written there."""

    def forget_wrapped(self, trainer: JointConjecturerProverTrainer) -> None:
        """Before training again in the same process (a rollback of the collapse guard)."""
