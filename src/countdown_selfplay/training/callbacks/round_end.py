"""The end of a round: per-role clip before the step, and the metrics that are only known after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from transformers import TrainerCallback

from ...policies.optimization import use_settings
from ..loop_state import restore_loop
from ..micro_batch import held_roles

if TYPE_CHECKING:
    from ..trainer import JointConjecturerProverTrainer


class RoundEnd(TrainerCallback):
    """Clips each role at its own norm (a joint clip couples the roles: it shrank the prover's gradient by 9.7
    instead of 5.0 in the prototype), drops gradients of roles without signal, and completes the round's metrics."""

    def __init__(self, trainer: JointConjecturerProverTrainer) -> None:
        self.trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step and self.trainer.loop:
            restore_loop(self.trainer, self.trainer.loop)
        if self.trainer.changed_settings:  # the checkpoint has brought the old learning rates back
            use_settings(self.trainer.optimizer, self.trainer.lr_scheduler, self.trainer.configured_groups)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        trainer = self.trainer
        optimizer: Any = trainer.optimizer
        norms = trainer.engine.clip(optimizer, trainer.roles, held_roles(trainer))
        metrics = trainer.round_metrics[-1]
        metrics.update({f"grad_norm/{role}": norm for role, norm in norms.items()})
        metrics.update({f"lr/{group['role']}": group["lr"] for group in optimizer.param_groups})
        metrics.update({f"{role}/signal": int(role not in trainer.signalless) for role in trainer.trained})

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Add the losses' sums (entropy, KL, importance weight), averaged over the processes. The run's last round is
        logged, with those before it that no log covers."""
        if state.global_step >= state.max_steps and args.logging_strategy != "no":
            control.should_log = True
        trainer = self.trainer
        names, values = [], []
        for role, loss in trainer.losses.items():
            for name, value in loss.pop_sums().items():
                names.append(f"{role}/{name}")
                values.append(value)
        self._add_maxima()
        if values:
            sums = trainer.processes.total(torch.stack(values).tolist())
            found = {name: value / trainer.processes.world for name, value in zip(names, sums, strict=True)}
            for role, loss in trainer.losses.items():
                if not loss.sequences:  # nothing was selected: its entropy and KL are absent, not 0
                    found = {k: v for k, v in found.items() if not k.startswith(f"{role}/") or k == f"{role}/loss"}
            for role, loss in trainer.losses.items():
                loss.end_of_round(found.get(f"{role}/entropy"))
                if loss.entropy.target is not None:
                    found[f"{role}/entropy_coef"] = loss.entropy.value
            trainer.round_metrics[-1].update(found)

    def _add_maxima(self) -> None:
        """Add the largest values of the round, over the processes."""
        trainer = self.trainer
        found = {f"{role}/{n}": v for role, loss in trainer.losses.items() for n, v in loss.pop_maxima().items()}
        if found:
            largest = trainer.processes.largest(torch.stack(list(found.values())).tolist())
            trainer.round_metrics[-1].update(zip(found, largest, strict=True))
