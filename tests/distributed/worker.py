"""One of two processes of a run: what it holds at the end."""

import os
import sys
import time
import traceback
from pathlib import Path

import torch

from tests.distributed.two_processes import leave
from tests.trainer.conftest import at_round, digest, held, make_trainer, optimizer_state, remembered, weights


def ending_at(trainer, rank, number, round_):
    """The process of `rank` gets the signal when it begins the round after `round_`, once: not when torchrun has
    started the run again."""
    told = Path(f"{trainer.args.output_dir}.told")

    def ends():
        if trainer.accelerator.process_index == rank and not told.exists():
            told.touch()
            os.kill(os.getpid(), number)

    at_round(trainer, round_, ends)


def noise_in(trainer, rank, round_):
    """The conjecturer becomes noise before the round after `round_`, another one on each process."""
    generator = torch.Generator().manual_seed(rank)

    def noise():
        with torch.no_grad():
            for _, parameter in trainer.policies.named_parameters("conjecturer"):
                parameter.normal_(0, 1, generator=generator)

    at_round(trainer, round_, noise)


def play(output, resume, config, signal=None, noise=None):
    trainer = make_trainer(output, **config)
    rank = trainer.accelerator.process_index
    if signal is not None:
        ending_at(trainer, **signal)
    if noise is not None:
        noise_in(trainer, rank, noise)
    trainer.train(resume_from_checkpoint=resume)
    return {
        "processes": trainer.accelerator.num_processes, "distributed_type": str(trainer.accelerator.distributed_type),
        "wrapped": type(trainer.model_wrapped).__name__, "weights": digest(weights(trainer)),
        "optimizer": digest(optimizer_state(trainer)), "remembered": remembered(trainer),
        "guard": trainer.guard.state_dict(), "memory": held(trainer),
    }  # fmt: skip


def fail(output):
    """Leave when the other process has failed too, for torchrun ends it when one has left: both are to be heard. If
    the other one has died, torchrun ends this one."""
    traceback.print_exc()
    sys.stderr.flush()
    rank = int(os.environ["RANK"])
    Path(f"{output}.failed{rank}").touch()
    while not Path(f"{output}.failed{1 - rank}").exists():
        time.sleep(0.05)
    leave(1)


def main(output, **job):
    try:
        return play(output, **job)
    except SystemExit as end:
        leave(end.code)
    except Exception:
        fail(output)
