"""The end of a round: clip per role before the step, metrics that are known only after it, the collapse guard, exports
every few rounds, and SIGTERM, which a scheduler sends before it kills."""

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
from ...generation.turns import check_woken
from ...policies.optimization import bare, use_settings
from ..book import Book, averaged_rounds
from ..exports import Exports
from ..round_loop import OptimizerSteps
from ..store import Store

logger = logging.getLogger(__name__)


class RoundEnd(TrainerCallback):
    """Clips each role at its own norm (a joint clip couples the roles: it shrank the prover's gradient by 9.7
    instead of 5.0 in the prototype), drops gradients of roles without signal, and completes the round's metrics."""

    def __init__(self, optimizer_steps: OptimizerSteps, roles: Mapping[str, Role], book: Book, store: Store) -> None:
        self.optimizer_steps, self.learners = optimizer_steps, optimizer_steps.learners
        self.roles, self.book, self.store = roles, book, store
        self.configured_groups: list[dict[str, Any]] = []
        """Settings of the optimizer's groups as they are configured, which a checkpoint's would replace."""
        self.woken: dict[str, float] = {}
        self.steps: list[dict[str, Any]] = []  # metrics of the round's optimizer steps so far

    def on_train_begin(
        self, args: Any, state: Any, control: Any, optimizer: Any = None, lr_scheduler: Any = None, **kwargs: Any
    ) -> None:
        self.steps = []
        for learner in self.learners.values():  # of a round that a rollback gave up
            learner.loss.pop_sums()
            learner.loss.pop_maxima()
        if state.global_step and self.store.loop:
            self.book.load_state_dict(self.store.loop)
        if self.store.changed:  # the checkpoint has brought the old learning rates back
            use_settings(optimizer, lr_scheduler, self.configured_groups)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, optimizer: Any = None, **kwargs: Any) -> None:
        engine, step = self.optimizer_steps.engine, self.optimizer_steps.step
        if args.reset_optimizer == "round" and not self.steps:
            bare(optimizer).state.clear()
        norms = engine.clip(optimizer, self.roles, self.optimizer_steps.held_roles)
        through = engine.policies.without_signal(step.through)
        found: dict[str, Any] = {f"grad_norm/{role}": norm for role, norm in norms.items() if role not in through}
        found |= {f"lr/{group['role']}": group["lr"] for group in optimizer.param_groups}
        stepping = [role for role in self.learners if role not in step.through]
        found |= {f"{role}/signal": int(role not in step.signalless) for role in stepping}
        self.steps.append(found)

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.steps[-1] |= self._losses()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The means over the round's optimizer steps become metrics of the round. The run's last round is logged, with
        those before it that no log covers."""
        self.optimizer_steps.finish()
        found, self.steps = averaged_rounds(self.steps), []
        if args.policy_sharing == "lora" and args.vllm_enable_sleep_mode:
            check_woken(self.woken, found)
        for role, learner in self.learners.items():
            coefficient = learner.loss.entropy
            if f"{role}/entropy" in found:  # else it was not measured
                coefficient.observe(found[f"{role}/entropy"])
            if coefficient.target is not None:
                found[f"{role}/entropy_coef"] = coefficient.value
        self.book.rounds[-1].update(found, **self._gathered("pop_maxima", max))
        if state.global_step >= state.max_steps and args.logging_strategy != "no":
            control.should_log = True

    def _losses(self) -> dict[str, float]:
        """The losses' sums of a step (entropy, KL, importance weight), averaged over the processes."""
        steps = self.optimizer_steps
        found, world = self._gathered("pop_sums", math.fsum), steps.processes.world
        for role, counts in steps.step.counts.items():
            if not counts.sequences:  # nothing was selected: entropy and KL are absent, not 0, also of blank passes
                kept = (f"{role}/loss", f"{role}/sft_loss") if counts.sft_tokens else ()
                found = {k: v for k, v in found.items() if not k.startswith(f"{role}/") or k in kept}
        return {name: value / world for name, value in found.items()}

    def _gathered(self, pop: str, reduce: Callable[[list[float]], float]) -> dict[str, float]:
        """What the losses of all processes have collected. A process without a sample of a role has none of it."""
        popped = {role: getattr(learner.loss, pop)() for role, learner in self.learners.items()}
        mine = {f"{role}/{name}": value for role, own in popped.items() for name, value in own.items()}
        values = torch.stack(list(mine.values())).tolist() if mine else []
        found: dict[str, list[float]] = {}
        for name, value in self.optimizer_steps.processes.gather(list(zip(mine, values, strict=True))):
            found.setdefault(name, []).append(value)
        return {name: reduce(own) for name, own in found.items()}


class RoundExports(TrainerCallback):
    """`<agent>_<k>/round_<r>/model/` every `export_every` rounds (Multimodal LLM Self-Play, appendix B)."""

    def __init__(self, exports: Exports) -> None:
        self.exports, self.every = exports, exports.args.rounds_per_export

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.every and self.exports.frame.rounds % self.every == 0:
            self.exports.write_round(Path(args.output_dir))


class Terminated(SystemExit):
    """Leaves the program after SIGTERM with exit code 143, as the signal itself would."""

    def __init__(self, step: int) -> None:
        super().__init__(128 + signal.SIGTERM)
        self.step = step


class Termination(TrainerCallback):
    """Asks all processes at the end of each round whether one of them was told to end. A second SIGTERM changes
    nothing: the round is still played to its end. It leaves before the next round and not in `on_save`, where the
    callbacks of a user (that copy a checkpoint away, for one) come later."""

    def __init__(self, processes: Processes, save: Callable[[], None]) -> None:
        """`save`: writes a checkpoint."""
        self.processes, self.save = processes, save
        self.asked = self.ending = self.saved = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Inside the block SIGTERM is noted. A user's handler, and any outside the main thread, stays."""
        self.asked = self.ending = self.saved = False
        ours = threading.current_thread() is threading.main_thread()
        if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            yield
            return
        signal.signal(signal.SIGTERM, self._note)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _note(self, *_: Any) -> None:
        self.asked = True

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.ending = any(self.processes.gather([self.asked]))
        if self.ending and args.save_strategy == "no":
            raise Terminated(state.global_step)
        control.should_save |= self.ending

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.saved = self.ending

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if not self.ending:
            return
        if not self.saved:  # save_strategy="best" took the save back, for the round was not the best one
            self.save()
        raise Terminated(state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.ending and self.saved:  # told to end in the last round
            raise Terminated(state.global_step)


class Rollback(Exception):
    """Leaves the training loop at the end of a round; caught by `train`, which resumes from the last healthy
    checkpoint."""

    def __init__(self, trip: Trip, step: int) -> None:
        super().__init__(trip, step)
        self.trip, self.step = trip, step


class GuardCallback(TrainerCallback):
    """Feeds the guard with every round, and warns once, on the main process, when a role's read, parse or format rate
    is next to nothing in the first ones. All processes hold the same metrics, so they trip together. A conjecturer
    alone (Allen and Ståblein, section 3.2) gets weights and optimizer state of a healthy checkpoint, and all else goes
    on. That is done at the end of a round, before a checkpoint of that round is written: a resume finds weights,
    optimizer and the guard's count as they then were, and no file beside them."""

    def __init__(
        self, guard: CollapseGuard, alone: ConjecturerGuard | None, book: Book, store: Store, save: Callable[[], None]
    ) -> None:
        """`alone`: under guard_scope=conjecturer. `save`: writes a checkpoint."""
        self.guard, self.alone, self.book, self.store, self.save = guard, alone, book, store, save
        self.legibility = Legibility(guard.metrics)

    def on_train_begin(self, args: Any, state: Any, control: Any, optimizer: Any = None, **kwargs: Any) -> None:
        # A collapse before the first regular checkpoint must have something to go back to.
        first = Path(args.output_dir) / "checkpoint-0"
        if args.guard and state.global_step == 0 and args.save_strategy != "no" and not first.exists():
            self.save()
        if state.global_step == 0:
            self.store.engine.before_first_round(optimizer)

    def on_step_end(self, args: Any, state: Any, control: Any, optimizer: Any = None, **kwargs: Any) -> None:
        metrics, alone = self.book.rounds[-1], self.alone
        self._warn(self.legibility.observe(state.global_step, metrics))
        if not args.guard:
            return
        trip = self.guard.observe(metrics)
        fallen = {} if alone is None else alone.fallen(metrics)
        if trip is not None:
            raise Rollback(trip, state.global_step)
        if alone is not None:
            metrics |= {f"{player}/rolled_back": int(player in fallen) for player in alone.players}
        if alone is not None and fallen:
            self.store.take_back(alone, fallen, state.global_step, optimizer)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._warn(self.legibility.judge())  # a run of fewer rounds

    def _warn(self, said: str | None) -> None:
        if said is not None and self.store.processes.main:
            with logging_redirect_tqdm():  # above the bar
                logger.warning(said)
