"""Store of a run's checkpoints: saving, resuming, and restoring a conjecturer alone."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerState

from .._trl import swapped
from ..config import JointSelfPlayConfig
from ..config.changes import allowed_names, changed_settings
from ..contract.stateful import Stateful
from ..curriculum import ConjecturerGuard
from ..data.run_files import disk_was_full, write_atomically
from ..distributed.ddp import Engine
from ..distributed.processes import Processes
from ..errors import CheckpointError, CollapseError, RunFolderError
from ..policies import inner_name
from ..policies.optimization import bare
from . import checkpoints
from .callbacks.progress import alert
from .exports import Exports

logger = logging.getLogger(__name__)

_STAGING = ".incomplete"
_LITTLE = 1 << 20  # free bytes below which a disk counts as full


@dataclass(eq=False)
class Store:
    """Writer and reader of a run's checkpoints."""

    args: JointSelfPlayConfig
    engine: Engine
    processes: Processes
    states: Mapping[str, Any]
    """Name -> part whose state is saved with weights and optimizer, including "frame", "guard" and optionally
    "guard/conjecturer". Parts without a state are left out."""
    settings: dict[str, Any]
    exports: Exports
    loop: dict[str, Any] = field(default_factory=dict)
    """State of the metrics buffer in the last checkpoint that was written or resumed."""
    changed: dict[str, list[Any]] = field(default_factory=dict)
    """Settings that a resume has changed: {name: [saved, current]}."""
    _verified: Path | None = None

    def __post_init__(self) -> None:
        self.states = {name: part for name, part in self.states.items() if isinstance(part, Stateful)}
        self.limit = self.args.save_total_limit  # hidden from the stock Trainer while it trains (rollbacks.py)
        self.output = Path(self.args.output_dir)
        self.shape = {"roles": list(self.args.all_roles), "policy_sharing": self.args.policy_sharing}
        """Settings that a resume must not change."""

    def save(self, stock_save: Callable[[], None], state: TrainerState, optimizer: Any) -> None:
        """Write `checkpoint-<step>`: all files into a staging folder, the list of files last, then one rename, so that
        an interruption leaves a complete checkpoint or none. All processes call it. Raises RunFolderError if the disk
        fails, naming the checkpoint that can be resumed."""
        args, main, output = self.args, self.processes.main, self.output
        staging, name = output / _STAGING, f"checkpoint-{state.global_step}"
        try:
            if main:
                shutil.rmtree(staging, ignore_errors=True)
                staging.mkdir(parents=True)
            self.processes.wait()
            self.engine.before_save(optimizer)
            if args.policy_sharing == "lora":
                self.exports.write_bases(output, self.engine.full_state)
            # Folder and rotation of the stock Trainer are replaced.
            with swapped(args, {"output_dir": str(staging)}):
                stock_save()
            self._name_best(state, staging / name)
            self.processes.wait()
            if args.policy_sharing != "lora":  # PEFT has written the adapters' folders already
                self.exports.write(staging / name)
            if main:
                self._finish(staging / name, state.global_step)
                checkpoints.replace_checkpoint(staging / name, output / name)
                shutil.rmtree(staging, ignore_errors=True)
                checkpoints.rotate(output, self.limit, state.best_model_checkpoint)
        except Exception as error:
            full = disk_was_full(error) or shutil.disk_usage(output).free < _LITTLE  # torch may give no reason
            shutil.rmtree(staging, ignore_errors=True)
            if not full and not isinstance(error, OSError):
                raise
            why = os.strerror(errno.ENOSPC) if full else " ".join(str(error).split())
            cure = f"free space, then go on: {checkpoints.how_to_go_on(output)}"
            raise RunFolderError(f"{output / name} could not be written ({why}); {cure}") from error
        self.processes.wait()

    def _name_best(self, state: TrainerState, staged: Path) -> None:
        """Correct the best checkpoint's path, in memory and in trainer_state.json: the stock Trainer recorded the
        staging folder, or a run folder that has been moved."""
        name = f"checkpoint-{state.best_global_step}"
        if name == staged.name or (self.output / name).is_dir():
            state.best_model_checkpoint = str(self.output / name)
            if self.processes.main:
                state.save_to_json(str(staged / "trainer_state.json"))

    def _finish(self, folder: Path, step: int) -> None:
        parts, alone = self.states, self.states.get("guard/conjecturer")
        checkpoints.write_states(folder, parts, {"loop": self.loop, **self.shape, "settings": self.settings})
        self.exports.write_proposer_files(folder)
        manifest = {
            "step": step,
            "format": checkpoints.FORMAT,
            "attempt": parts["frame"].attempt,
            "healthy": parts["guard"].healthy,
            **({} if alone is None else {checkpoints.CONJECTURER_HEALTHY: alone.healthy}),
            "processes": self.processes.world,
            "engine": self.engine.name,
            "optimizer": self.engine.optimizer_file,
            "files": checkpoints.digests(folder, [p for p in sorted(folder.rglob("*")) if p.is_file()], settle=True),
        }
        write_atomically(folder / checkpoints.COMPLETE, json.dumps(manifest, indent=1))

    def resolve(self, resume: str | bool | None) -> Path | None:
        """Return the checkpoint to resume, or None for a new run. `resume`: a folder, True for the newest complete
        checkpoint in the output folder, or "auto" for the same if there is one. Raises CheckpointError if the
        checkpoint is absent, damaged or of a run with other settings."""
        if resume == "":  # an unset shell variable: a fresh run would move the old one aside
            raise CheckpointError("`resume_from_checkpoint` is empty; pass a folder, true, auto or nothing.")
        if isinstance(resume, (str, os.PathLike)):
            resume = {"true": True, "false": False}.get(str(resume).lower(), str(resume))  # the command line's form
        if not resume:
            return None
        path = self.processes.together(lambda: self._find(resume))
        if path is not None:
            self.changes(path, checkpoints.read_states(path))
        return path

    def _find(self, resume: str | bool) -> Path | None:
        output = self.output
        checkpoints.finish_going_back(output)
        if resume in (True, "auto"):
            folder = self.newest()
            if folder is None and resume is True:
                cure = "leave resume_from_checkpoint out, or pass auto, which starts a run that has none"
                raise CheckpointError(f"There is no complete checkpoint in {output} to resume from; {cure}.")
        else:
            folder = Path(str(resume))
            contents = folder != self._verified
            problem = checkpoints.defect(folder, self.processes.world, self.engine.name, contents)
            if problem is not None:
                cure = "pass true to take the newest complete checkpoint"
                raise CheckpointError(f"Cannot resume from {folder}: {problem}; {cure}.")
        self._verified = folder
        return folder

    def changes(self, folder: Path, state: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Return the settings that differ from those of the run that wrote `folder`, as {name: [saved, current]}.
        Raises CheckpointError if one of them must be equal. `state`: result of `read_states`."""
        for name, value in self.shape.items():
            if state[name] != value:
                differs = f"its {name} is {state[name]} and this run's is {value}"
                raise CheckpointError(f"Cannot resume from {folder}: {differs}.")
        # The problems of a proposer with targets, if both runs have one.
        proposer, targets = self.exports.proposer, ""
        known = state["states"].get("game", {}).get("state", {}).get("proposer") or {}
        if proposer is not None and "known" in known:
            targets = proposer.changed(known, self.states["solve_rate"].keys)
        allowed = allowed_names(self.args.allow_changed)
        return changed_settings(state["settings"], self.settings, allowed, folder, {"train_dataset": targets})

    def load(self, folder: Path) -> dict[str, list[Any]]:
        """Restore the parts in `states`; the stock Trainer loads weights, optimizer, schedule and RNG. Returns the
        changed settings, as {name: [saved, current]}."""
        state = checkpoints.read_states(folder)
        changed = self.changes(folder, state)
        parts = dict(self.states)
        if "train_dataset" in changed:
            parts.pop("solve_rate", None)  # it counts the problems of another data set
        checkpoints.load_states(parts, state["states"])
        self.loop = state["loop"]  # RoundEnd restores them after the Trainer has set up its loop
        return changed

    def newest(self, healthy_only: bool = False) -> Path | None:
        """Return the newest complete checkpoint of this run (`healthy_only`: among the healthy ones), or None."""
        return checkpoints.newest(self.output, self.processes.world, healthy_only, self.engine.name)

    def take_back(self, guard: ConjecturerGuard, fallen: Mapping[str, float], step: int, optimizer: Any) -> None:
        """Restore weights and optimizer state of collapsed conjecturers from a healthy checkpoint. `fallen`: player ->
        its parseable rate. The number of restores is unlimited, as in Allen and Ståblein. Raises CollapseError without
        a healthy checkpoint."""
        engine, policies = self.engine, self.engine.policies
        rates = [f"{one}/parseable_rate is {rate:.4g}, under {guard.lowest[one]:g}" for one, rate in fallen.items()]
        seen = f"The conjecturer collapsed at round {step}: {', '.join(rates)}"
        known = self.output, step - 1, self.processes.world, engine.name
        target = self.processes.together(lambda: checkpoints.healthy_conjecturer(*known))
        if target is None:
            raise CollapseError(f"{seen}. There is no healthy checkpoint to take it from; set save_steps lower.")
        guard.rollbacks += 1
        cure = "if it falls again, lower its learning rate or raise its beta"
        message = f"{seen}. Taking it back to {target} (rollback {guard.rollbacks} of it); {cure}."
        logger.warning(message)
        alert(self.args, self.processes.main, "Took the conjecturer back", message)
        names = dict.fromkeys(policies.weights_of[player] for player in fallen)
        for name in names:
            policies.restore(name, target / inner_name(name))
        saved = torch.load(target / engine.optimizer_file, map_location="cpu", weights_only=True)
        restore_groups(optimizer, saved, {policies.shared_by(name)[0] for name in names})
        guard.healthy = True  # a checkpoint of this round is known to be healthy


def restore_groups(optimizer: Any, saved: Mapping[str, Any], roles: set[str]) -> None:
    """Restore the optimizer state of the parameters of `roles` from `saved`, a state dict of this optimizer; learning
    rates stay those of the schedule."""
    inner = bare(optimizer)
    now = inner.state_dict()
    for group in now["param_groups"]:
        if group["role"] in roles:
            for index in group["params"]:
                now["state"].pop(index, None)
                if index in saved["state"]:  # at round 0 there is none
                    now["state"][index] = saved["state"][index]
    inner.load_state_dict(now)
