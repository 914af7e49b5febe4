"""Actions of the collapse guard: a healthy checkpoint to go back to, and the rollback, of the run or of a conjecturer
alone; each is an alert of a tracker that has alerts."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from ...curriculum import CollapseGuard, ConjecturerGuard, Trip
from ...errors import CollapseError
from ...policies import inner_name
from ...policies.optimization import bare
from ..book import Book
from ..checkpoints import CONJECTURER_HEALTHY, checkpoints, defect, manifest_of, step_in
from ..store import Store

logger = logging.getLogger(__name__)


class Rollback(Exception):
    """Leaves the training loop at the end of a round; caught by `train`, which resumes from the last healthy
    checkpoint."""

    def __init__(self, trip: Trip, step: int) -> None:
        super().__init__(trip, step)
        self.trip, self.step = trip, step


class GuardCallback(TrainerCallback):
    """Feeds the guard with every round. All processes hold the same metrics, so they trip together. A conjecturer
    alone (Allen and Ståblein, section 3.2) gets weights and optimizer state of a healthy checkpoint, and all else goes
    on. That is done at the end of a round, before a checkpoint of that round is written: a resume finds weights,
    optimizer and the guard's count as they then were, and no file beside them."""

    def __init__(
        self, guard: CollapseGuard, alone: ConjecturerGuard | None, book: Book, store: Store, save: Callable[[], None]
    ) -> None:
        """`alone`: under guard_scope=conjecturer. `save`: writes a checkpoint."""
        self.guard, self.alone, self.book, self.store, self.save = guard, alone, book, store, save

    def on_train_begin(self, args: Any, state: Any, control: Any, optimizer: Any = None, **kwargs: Any) -> None:
        # A collapse before the first regular checkpoint must have something to go back to.
        first = Path(args.output_dir) / "checkpoint-0"
        if args.guard and state.global_step == 0 and args.save_strategy != "no" and not first.exists():
            self.save()
        if state.global_step == 0:
            self.store.engine.before_first_round(optimizer)

    def on_step_end(self, args: Any, state: Any, control: Any, optimizer: Any = None, **kwargs: Any) -> None:
        if not args.guard:
            return
        metrics, alone = self.book.rounds[-1], self.alone
        trip = self.guard.observe(metrics)
        fallen = {} if alone is None else alone.fallen(metrics)
        if trip is not None:
            raise Rollback(trip, state.global_step)
        if alone is not None:
            metrics |= {f"{player}/rolled_back": int(player in fallen) for player in alone.players}
        if alone is not None and fallen:
            self._take_back(alone, fallen, state.global_step, optimizer)

    def _take_back(self, guard: ConjecturerGuard, fallen: Mapping[str, float], step: int, optimizer: Any) -> None:
        """`fallen`: players and their parseable rates. However often it was done, the run goes on (Allen and
        Ståblein's guard never ends one). CollapseError without a checkpoint."""
        args, engine = self.store.args, self.store.engine
        seen = ", ".join(f"{player}/parseable_rate is {rate:.4g}" for player, rate in fallen.items())
        seen = f"The conjecturer collapsed at round {step}: {seen}, under {guard.low:g}"
        found = self.store.processes.together(lambda: self._healthy_checkpoint(step - 1))
        if found is None:
            raise CollapseError(f"{seen}. There is no healthy checkpoint to take it from; set save_steps lower.")
        guard.rollbacks += 1
        said = (
            f"{seen}. Taking it back to {found} (rollback {guard.rollbacks} of it); if it falls again, lower its "
            "learning rate or raise its beta."
        )
        logger.warning(said)
        alert(args, self.store.processes.main, "Took the conjecturer back", said)
        policies = engine.policies
        names = dict.fromkeys(policies.weights_of[player] for player in fallen)
        for name in names:
            policies.restore(name, Path(found) / inner_name(name))
        saved = torch.load(Path(found) / engine.optimizer_file, map_location="cpu", weights_only=True)
        restore_groups(optimizer, saved, {policies.shared_by(name)[0] for name in names})
        guard.healthy = True  # what a checkpoint of this round holds is known to be good

    def _healthy_checkpoint(self, sampled: int) -> str | None:
        """The newest checkpoint with a healthy conjecturer before the weights of step `sampled`, which this round's
        proposals come from and which were taken for healthy when they were written; those if there is no other. (The
        authors' code goes two checkpoints back.)"""
        processes, engine = self.store.processes.world, self.store.engine.name
        found = reversed(checkpoints(self.store.output))
        known = [folder for folder in found if manifest_of(folder).get(CONJECTURER_HEALTHY)]
        for folder in sorted(known, key=lambda folder: step_in(folder) >= sampled):  # stable: the newest first
            if defect(folder, processes, engine) is None:
                return str(folder)
        return None


def restore_groups(optimizer: Any, saved: Mapping[str, Any], roles: set[str]) -> None:
    """Put the state that `saved` (a state dict of this optimizer) has for the parameters of `roles` in the place of
    theirs; learning rates stay those of the schedule."""
    inner = bare(optimizer)
    now = inner.state_dict()
    for group in now["param_groups"]:
        if group["role"] in roles:
            for index in group["params"]:
                now["state"].pop(index, None)
                if index in saved["state"]:  # at round 0 there is none
                    now["state"][index] = saved["state"][index]
    inner.load_state_dict(now)


def alert(args: Any, main: bool, title: str, text: str, level: str = "warn") -> None:
    """On the main process, where `report_to` names trackio and its run has begun: an alert beside its curves (level:
    info, warn or error). Nothing elsewhere: wandb and tensorboard have the metrics, and the warning is in the log."""
    trackio = sys.modules.get("trackio")  # the tracker's callback has imported it
    if trackio is None or "trackio" not in args.report_to or not main:
        return
    try:
        if trackio.context_vars.current_run.get() is not None:
            trackio.alert(title=title, text=text, level=trackio.AlertLevel(level))
    except Exception as error:  # an old version without alerts, a lost server: neither may stop a rollback
        logger.warning("trackio took no alert (%s: %s).", type(error).__name__, error)
