"""The rollback of a conjecturer alone (Allen and Ståblein, section 3.2): its weights and its optimizer state are those
of a healthy checkpoint, all else goes on. It is done at the end of a round, before a checkpoint of that round is
written: a resume finds weights, optimizer and the guard's count as they then were, and no file beside them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ..errors import CollapseError
from ..policies import inner_name
from .alerts import alert
from .checkpoints import CONJECTURER_HEALTHY, checkpoints, defect, manifest_of, step_in
from .host import Host

logger = logging.getLogger(__name__)


def take_back(trainer: Host, fallen: Mapping[str, float]) -> None:
    """`fallen`: players and their parseable rates. However often it was done, the run goes on (Allen and Ståblein's
    guard never ends one). CollapseError without a checkpoint."""
    guard = trainer.conjecturer_guard
    assert guard is not None
    seen = ", ".join(f"{player}/parseable_rate is {rate:.4g}" for player, rate in fallen.items())
    seen = f"The conjecturer collapsed at round {trainer.frame.rounds}: {seen}, under {guard.low:g}"
    found = trainer.processes.together(lambda: healthy_checkpoint(trainer))
    if found is None:
        raise CollapseError(f"{seen}. There is no healthy checkpoint to take it from; set save_steps lower.")
    guard.rollbacks += 1
    said = (
        "%s. Taking it back to %s (rollback %d of it); if it falls again, lower its learning rate or raise its beta."
    )
    logger.warning(said, seen, found, guard.rollbacks)
    alert(trainer, "Took the conjecturer back", said % (seen, found, guard.rollbacks))
    names = dict.fromkeys(trainer.policies.weights_of[player] for player in fallen)
    for name in names:
        trainer.policies.restore(name, Path(found) / inner_name(name))
    saved = torch.load(Path(found) / trainer.engine.optimizer_file, map_location="cpu", weights_only=True)
    restore_groups(trainer.optimizer, saved, {trainer.policies.shared_by(name)[0] for name in names})
    guard.healthy = True  # what a checkpoint of this round holds is known to be good


def healthy_checkpoint(trainer: Host) -> str | None:
    """The newest checkpoint with a healthy conjecturer before the weights that this round's proposals were sampled
    from, which were taken for healthy when they were written; those if there is no other. (The authors' code goes two
    checkpoints back.)"""
    processes, engine = trainer.processes.world, trainer.engine.name
    output, sampled = Path(trainer.args.output_dir), trainer.state.global_step - trainer.args.steps_per_round
    known = [folder for folder in reversed(checkpoints(output)) if manifest_of(folder).get(CONJECTURER_HEALTHY)]
    for folder in sorted(known, key=lambda folder: step_in(folder) >= sampled):  # stable: the newest first
        if defect(folder, processes, engine) is None:
            return str(folder)
    return None


def restore_groups(optimizer: Any, saved: Mapping[str, Any], roles: set[str]) -> None:
    """Put the state that `saved` (a state dict of this optimizer) has for the parameters of `roles` in the place of
    theirs; learning rates stay those of the schedule."""
    inner = getattr(optimizer, "optimizer", optimizer)  # accelerate's wrapper
    now = inner.state_dict()
    for group in now["param_groups"]:
        if group["role"] in roles:
            for index in group["params"]:
                now["state"].pop(index, None)
                if index in saved["state"]:  # at round 0 there is none
                    now["state"][index] = saved["state"][index]
    inner.load_state_dict(now)
