"""Measurement of peak memory in two rounds of a configuration with texts of full length."""

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

ROUNDS = 2  # the optimizer's moments do not exist before the end of the first round
_SMALL = 1e-6  # an entropy bonus, so that texts without reward keep their rows and gradients in the step


class Meter:
    """Meter of the peak memory in bytes since the last reading. On a GPU it is the allocator's peak; on a CPU the peak
    of the resident pages without a file, which a thread reads every 2 ms, less their level at creation."""

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
        """Return the peak in bytes since the last call."""
        if self.cuda:
            peak = torch.cuda.max_memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        else:
            peak, self.highest = self.highest - self.base, self._anonymous()
        return peak


class _Halves(TrainerCallback):
    """Callback that reads the meter when a round passes from sampling to training, and when the round ends."""

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
    """Joint trainer that reports when the first inputs of a step are ready."""

    halves: _Halves

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        inputs = super()._prepare_inputs(generation_batch)
        self.halves.prepared()
        return inputs


def probe(args: JointSelfPlayConfig, trainer_arguments: dict[str, Any]) -> dict[str, Any]:
    """Play ROUNDS rounds in a temporary folder; return this process's peaks in GiB while sampling and while training,
    and the last log. The end token is replaced by one that is practically never sampled, so that texts have full
    length."""
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
    """Set a small entropy bonus for each trained role that has none, in the plain field or in `roles`."""
    args.entropy_coef = args.entropy_coef or _SMALL
    for kind in dict.fromkeys(args.role(player).kind for player in args.trained_roles):
        if not args.role(kind).entropy_coef:
            roles = parsed_roles(args.roles)
            args.roles = {**roles, kind: {**roles[kind], "entropy_coef": _SMALL}}


def probe_table(measured: dict[str, Any]) -> str:
    """Format the result of `probe` as a table, in GiB."""
    rows: list[tuple[str, ...]] = [("half of a round", "measured")]
    rows += [(half, f"{measured[half]:.3f}") for half in ("sampling", "training")]
    longest = {key: n for key, n in sorted(measured["log"].items()) if key.endswith("/completion_length_max")}
    longest_texts = ", ".join(f"{key.split('/')[0]} {n:g}" for key, n in longest.items())
    longest_texts = f"; longest texts: {longest_texts} tokens" if longest_texts else ""
    place = "max_memory_allocated" if torch.cuda.is_available() else "resident pages of no file"
    return f"{aligned(rows)}\nMeasured in round {ROUNDS}, above what was there after imports ({place}){longest_texts}."
