"""Callbacks at the end of a round: clipping per role, metrics, collapse guard, and SIGTERM."""

from __future__ import annotations

import logging
import math
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from tqdm.contrib.logging import logging_redirect_tqdm
from transformers import TrainerCallback

from ...config import Role
from ...curriculum import CollapseGuard, ConjecturerGuard, Trip
from ...curriculum.guard import Legibility
from ...distributed.processes import Processes
from ...generation.vllm_sampler import check_woken
from ...policies.optimization import bare, use_settings
from ..metrics_buffer import MetricsBuffer, averaged_rounds
from ..round_loop import OptimizerSteps
from ..store import Store

logger = logging.getLogger(__name__)

Save = Callable[[], None]


class RoundEnd(TrainerCallback):
    """Callback that clips each role's gradient by its norm, drops gradients of roles without credit, and completes the
    round's metrics. A joint clip couples roles: in a prototype it divided the prover's gradient by 9.7, not 5.0."""

    def __init__(
        self, optimizer_steps: OptimizerSteps, roles: Mapping[str, Role], buffer: MetricsBuffer, store: Store
    ) -> None:
        self.optimizer_steps, self.learners = optimizer_steps, optimizer_steps.learners
        self.roles, self.buffer, self.store = roles, buffer, store
        self.configured_groups: list[dict[str, Any]] = []
        """Configured settings of the optimizer's parameter groups; loading a checkpoint overwrites the groups."""
        self.woken: dict[str, float] = {}
        self.steps: list[dict[str, Any]] = []  # metrics of the round's optimizer steps

    def on_train_begin(
        self, args: Any, state: Any, control: Any, optimizer: Any = None, lr_scheduler: Any = None, **kwargs: Any
    ) -> None:
        self.steps = []
        for learner in self.learners.values():  # the round was rolled back
            learner.loss.pop_sums()
            learner.loss.pop_maxima()
        if state.global_step and self.store.loop:
            self.buffer.load_state_dict(self.store.loop)
        if self.store.changed:  # a checkpoint restores the old learning rates
            use_settings(optimizer, lr_scheduler, self.configured_groups)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, optimizer: Any = None, **kwargs: Any) -> None:
        engine, step = self.optimizer_steps.engine, self.optimizer_steps.step
        if args.reset_optimizer == "round" and not self.steps:
            bare(optimizer).state.clear()
        norms = engine.clip(optimizer, self.roles, self.optimizer_steps.held_roles)
        through = engine.policies.without_signal(step.through)
        logged: dict[str, Any] = {f"grad_norm/{role}": norm for role, norm in norms.items() if role not in through}
        logged |= {f"lr/{group['role']}": group["lr"] for group in optimizer.param_groups}
        stepping = [role for role in self.learners if role not in step.through]
        logged |= {f"{role}/signal": int(role not in step.signalless) for role in stepping}
        self.steps.append(logged)

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.steps[-1] |= self._losses()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Add means over the round's optimizer steps to the round's metrics; request a log after the last round."""
        self.optimizer_steps.schedule(self.optimizer_steps.skipped)  # the steps that the round did not take
        averages, self.steps = averaged_rounds(self.steps), []
        if args.policy_sharing == "lora" and args.vllm_enable_sleep_mode:
            check_woken(self.woken, averages)
        for role, learner in self.learners.items():
            coefficient = learner.loss.entropy
            if f"{role}/entropy" in averages:  # absent: not measured
                coefficient.observe(averages[f"{role}/entropy"])
            if coefficient.target is not None:
                averages[f"{role}/entropy_coef"] = coefficient.value
        self.buffer.rounds[-1].update(averages, **self._gathered("pop_maxima", max))
        if state.global_step >= state.max_steps and args.logging_strategy != "no":
            control.should_log = True

    def _losses(self) -> dict[str, float]:
        """Return the loss metrics of an optimizer step (entropy, KL, importance weight), averaged over processes."""
        steps = self.optimizer_steps
        losses, world = self._gathered("pop_sums", math.fsum), steps.processes.world
        for role, counts in steps.step.counts.items():
            if not counts.sequences:  # nothing was selected: entropy and KL are absent, not 0, also of blank passes
                kept = (f"{role}/loss", f"{role}/sft_loss") if counts.sft_tokens else ()
                losses = {k: v for k, v in losses.items() if not k.startswith(f"{role}/") or k in kept}
        return {name: value / world for name, value in losses.items()}

    def _gathered(self, pop: str, reduce: Callable[[list[float]], float]) -> dict[str, float]:
        """Call the method `pop` of each role's loss; return the metrics, combined over the processes by `reduce`."""
        popped = {role: getattr(learner.loss, pop)() for role, learner in self.learners.items()}
        mine = {f"{role}/{name}": value for role, losses in popped.items() for name, value in losses.items()}
        values = torch.stack(list(mine.values())).tolist() if mine else []
        by_name: dict[str, list[float]] = {}
        for name, value in self.optimizer_steps.processes.gather(list(zip(mine, values, strict=True))):
            by_name.setdefault(name, []).append(value)
        return {name: reduce(losses) for name, losses in by_name.items()}


class Terminated(SystemExit):
    """SystemExit after SIGTERM, with the signal's exit code 143."""

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)


class Termination(TrainerCallback):
    """Callback that ends the run after the round in which any process receives SIGTERM; further signals change
    nothing. It exits at the start of the next round and not in `on_save`, because a user's callbacks, which may copy
    the checkpoint, run after this one."""

    def __init__(self, processes: Processes, save: Save) -> None:
        self.processes, self.save = processes, save

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Record SIGTERM inside the block, unless a user's handler is set or this is not the main thread."""
        self.requested = self.ending = self.saved = False
        main = threading.current_thread() is threading.main_thread()
        ours = main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if ours:
            signal.signal(signal.SIGTERM, self._note)
        try:
            yield
        finally:
            if ours:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _note(self, *_: Any) -> None:
        self.requested = True

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.ending = any(self.processes.gather([self.requested]))
        if self.ending and args.save_strategy == "no":
            raise Terminated
        control.should_save |= self.ending

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.saved = self.ending

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not self.ending:
            return
        if not self.saved:  # save_strategy="best" has undone the save, because the round was not the best
            self.save()
        raise Terminated

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.ending and self.saved:  # terminated in the last round
            raise Terminated


class Rollback(Exception):
    """Exception that leaves the training loop at the end of a round; `train` catches it and resumes."""

    def __init__(self, trip: Trip, step: int) -> None:
        super().__init__(trip, step)
        self.trip, self.step = trip, step


class GuardCallback(TrainerCallback):
    """Callback that passes each round's metrics to the guard, and warns once if a role's read, parse or format rate is
    close to 0 in the first rounds. All processes hold the same metrics and trip together. A collapsed conjecturer
    under guard_scope=conjecturer (Allen and Ståblein, section 3.2) gets weights and optimizer state of a healthy
    checkpoint before a checkpoint of the round is written, so that a resume reads them."""

    def __init__(
        self, guard: CollapseGuard, alone: ConjecturerGuard | None, buffer: MetricsBuffer, store: Store, save: Save
    ) -> None:
        self.guard, self.alone, self.buffer, self.store, self.save = guard, alone, buffer, store, save
        self.legibility = Legibility(guard.metrics)

    def on_train_begin(self, args: Any, state: Any, control: Any, optimizer: Any = None, **kwargs: Any) -> None:
        # A collapse before the first regular checkpoint needs one to return to.
        first = Path(args.output_dir) / "checkpoint-0"
        if args.guard and state.global_step == 0 and args.save_strategy != "no" and not first.exists():
            self.save()
        if state.global_step == 0:
            self.store.engine.before_first_round(optimizer)

    def on_step_end(self, args: Any, state: Any, control: Any, optimizer: Any = None, **kwargs: Any) -> None:
        metrics, alone = self.buffer.rounds[-1], self.alone
        self._warn(self.legibility.observe(state.global_step, metrics))
        if not args.guard:
            return
        trip = self.guard.observe(metrics)
        fallen = {} if alone is None else alone.fallen(metrics)
        if trip is not None:
            raise Rollback(trip, state.global_step)
        if alone is not None:
            metrics |= {f"{player}/rolled_back": int(player in fallen) for player in alone.lowest}
            if fallen:
                self.store.take_back(alone, fallen, state.global_step, optimizer)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._warn(self.legibility.judge())  # a run of fewer rounds

    def _warn(self, warning: str | None) -> None:
        if warning is not None and self.store.processes.main:
            with logging_redirect_tqdm():  # above the bar
                logger.warning(warning)
