"""Measured peaks of memory: two rounds of a configuration with texts of full length, read at the end of each half."""

import copy
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback
from transformers.trainer_utils import IntervalStrategy, SaveStrategy
from transformers.utils import logging as transformers_logging

from ..config import JointSelfPlayConfig
from ..config.roles import parsed_roles
from ..evaluation.terminal import aligned
from ..training.callbacks.progress import RoundLines
from ..training.trainer import JointConjecturerProverTrainer
from .memory import GIB

ROUNDS = 2  # the optimizer's moments do not exist before the end of the first
_SMALL = 1e-6  # an entropy bonus: texts that earn nothing keep their rows and gradients in the step


class Meter:
    """Peak bytes since the last reset, above those at the meter's making. On a GPU the allocator's own figure; on a
    CPU a thread reads, every other millisecond, the resident pages that belong to no file: those of libraries come
    and go."""

    def __init__(self) -> None:
        self.cuda = torch.cuda.is_available()
        self.base = self.highest = 0 if self.cuda else self._anonymous()
        self.over = threading.Event()
        if not self.cuda:
            threading.Thread(target=self._watch, daemon=True).start()

    @staticmethod
    def _anonymous() -> int:
        resident, shared = Path("/proc/self/statm").read_text().split()[1:3]
        return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")

    def _watch(self) -> None:
        while not self.over.is_set():
            self.highest = max(self.highest, self._anonymous())
            time.sleep(0.002)

    def take(self) -> int:
        """The peak since the last call."""
        if self.cuda:
            found = torch.cuda.max_memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        else:
            found, self.highest = self.highest - self.base, self._anonymous()
        return found


class _Halves(TrainerCallback):
    """Takes the meter's figure where a round passes from sampling to training, and at its end."""

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self.sampling: list[int] = []
        self.training: list[int] = []
        self.sampled = True

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.meter.take()
        self.sampled = False

    def prepared(self) -> None:
        if not self.sampled:
            self.sampling.append(self.meter.take())
            self.sampled = True

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.training.append(self.meter.take())


class _Probed(JointConjecturerProverTrainer):
    """Differs from the joint trainer in that it says when the first inputs of a step are ready."""

    halves: _Halves

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        found = super()._prepare_inputs(generation_batch)
        self.halves.prepared()
        return found


def probe(args: JointSelfPlayConfig, trainer_arguments: dict[str, Any]) -> dict[str, Any]:
    """GiB that this process peaked at while sampling and while training, and the last log of the run.

    Everything is as in a run but for its length, its folder, and the end token, which is one that is practically never
    sampled: the texts have full length. Nothing is left behind.
    """
    args = copy.copy(args)
    args.max_steps, args.save_strategy, args.eval_strategy = ROUNDS, SaveStrategy.NO, IntervalStrategy.NO
    args.report_to, args.guard, args.drop_signalless_gradients, args.disable_tqdm = [], False, False, True
    _give_entropy(args)
    transformers_logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        args.output_dir = folder
        meter = Meter()
        trainer = _Probed(args=args, **trainer_arguments)
        trainer.eos_token_ids = [trainer.model.config.get_text_config().vocab_size - 1]
        trainer.remove_callback(RoundLines)
        trainer.halves = _Halves(meter)
        trainer.add_callback(trainer.halves)
        try:
            trainer.train()
        finally:
            meter.over.set()  # ends its thread
        trainer.accelerator.wait_for_everyone()
    return {
        "sampling": trainer.halves.sampling[-1] / GIB,
        "training": trainer.halves.training[-1] / GIB,
        "after_imports": meter.base / GIB,
        "wrapped": type(trainer.model_wrapped).__name__,
        "processes": trainer.accelerator.num_processes,
        "log": next((log for log in reversed(trainer.state.log_history) if "loss" in log), {}),
    }


def _give_entropy(args: JointSelfPlayConfig) -> None:
    """An entropy bonus for each trained role that has none: the plain field's, or one of its own where it says 0."""
    args.entropy_coef = args.entropy_coef or _SMALL
    for kind in dict.fromkeys(args.role(player).kind for player in args.trained_roles):
        if args.role(kind).entropy_coef:
            continue
        roles = parsed_roles(args.roles)
        args.roles = {**roles, kind: {**roles[kind], "entropy_coef": _SMALL}}


def probe_table(found: dict[str, Any]) -> str:
    """Measured peaks, in GiB."""
    rows: list[tuple[str, ...]] = [("half of a round", "measured")]
    rows += [(half, f"{found[half]:.3f}") for half in ("sampling", "training")]
    longest = {key: n for key, n in sorted(found["log"].items()) if key.endswith("/completion_length_max")}
    said = ", ".join(f"{key.split('/')[0]} {n:g}" for key, n in longest.items())
    said = f"; longest texts: {said} tokens" if said else ""
    place = "max_memory_allocated" if torch.cuda.is_available() else "resident pages of no file"
    return f"{aligned(rows)}\nMeasured in round {ROUNDS}, above what was there after imports ({place}){said}."
