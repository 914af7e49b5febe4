"""The end of a round: per-role clip before the step, and the metrics that are only known after it."""

from __future__ import annotations

from typing import Any

import torch
from transformers import TrainerCallback

from ...policies.optimization import use_settings
from ..host import Host
from ..loop_state import restore_loop
from ..metrics import averaged_rounds
from ..micro_batch import held_roles
from ..steps import ends_round


class RoundEnd(TrainerCallback):
    """Clips each role at its own norm (a joint clip couples the roles: it shrank the prover's gradient by 9.7
    instead of 5.0 in the prototype), drops gradients of roles without signal, and completes the round's metrics."""

    def __init__(self, trainer: Host) -> None:
        self.trainer = trainer
        self.windows: list[dict[str, Any]] = []  # metrics of the round's optimizer steps so far

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.windows = []
        if state.global_step and self.trainer.loop:
            restore_loop(self.trainer, self.trainer.loop)
        if self.trainer.changed_settings:  # the checkpoint has brought the old learning rates back
            use_settings(self.trainer.optimizer, self.trainer.lr_scheduler, self.trainer.configured_groups)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        trainer = self.trainer
        optimizer: Any = trainer.optimizer
        norms = trainer.engine.clip(optimizer, trainer.roles, held_roles(trainer))
        stepping = [role for role in trainer.trained if role not in trainer.idle]
        through = trainer.policies.without_signal(trainer.idle)
        found: dict[str, Any] = {f"grad_norm/{role}": norm for role, norm in norms.items() if role not in through}
        found |= {f"lr/{group['role']}": group["lr"] for group in optimizer.param_groups}
        found |= {f"{role}/signal": int(role not in trainer.signalless) for role in stepping}
        self.windows.append(found)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Complete the window's metrics; at the end of the round their means become the round's. The run's last round
        is logged, with those before it that no log covers."""
        self.windows[-1] |= self._losses()
        if not ends_round(args, state.global_step):
            control.should_log = False  # logging_first_step is the first round's
            return
        trainer = self.trainer
        found, self.windows = averaged_rounds(self.windows), []
        for role, loss in trainer.losses.items():
            loss.end_of_round(found.get(f"{role}/entropy"))
            if loss.entropy.target is not None:
                found[f"{role}/entropy_coef"] = loss.entropy.value
        trainer.round_metrics[-1].update(found, **self._maxima())
        first = args.logging_first_step and state.global_step == args.steps_per_round
        if first or (state.global_step >= state.max_steps and args.logging_strategy != "no"):
            control.should_log = True

    def _losses(self) -> dict[str, float]:
        """The losses' sums of a window (entropy, KL, importance weight), averaged over the processes."""
        trainer = self.trainer
        sums = {f"{role}/{n}": value for role, loss in trainer.losses.items() for n, value in loss.pop_sums().items()}
        if not sums:
            return {}
        totals = trainer.processes.total(torch.stack(list(sums.values())).tolist())
        found = {name: value / trainer.processes.world for name, value in zip(sums, totals, strict=True)}
        for role, loss in trainer.losses.items():
            kept = () if role in trainer.idle else (f"{role}/loss",)
            if not loss.sequences or not kept:  # nothing was selected: its entropy and KL are absent, not 0
                found = {k: v for k, v in found.items() if not k.startswith(f"{role}/") or k in kept}
        return found

    def _maxima(self) -> dict[str, float]:
        """The largest values of the round, over the processes."""
        trainer = self.trainer
        found = {f"{role}/{n}": v for role, loss in trainer.losses.items() for n, v in loss.pop_maxima().items()}
        if not found:
            return {}
        largest = trainer.processes.largest(torch.stack(list(found.values())).tolist())
        return dict(zip(found, largest, strict=True))
