"""One rank of a two-process run: trains as told by a JSON argument and writes what it holds at the end to
<output>/rank<r>.json.

Started by torchrun (test_two_processes.launch), never collected by pytest.
"""

import hashlib
import json
import os
import sys
import time
import traceback
from dataclasses import asdict
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.distributed.two_processes import leave
from tests.trainer.conftest import make_trainer, optimizer_state, remembered, weights


def digest(tensors):
    total = hashlib.blake2b(digest_size=16)
    for name in sorted(tensors):
        total.update(name.encode() + tensors[name].contiguous().numpy().tobytes())
    return total.hexdigest()


def ending_at(trainer, rank, number, round_):
    """The process of `rank` gets the signal when it begins the round after `round_`, once: not when torchrun has
    started the run again."""
    play, told = trainer.game.play, Path(f"{trainer.args.output_dir}.told")

    def ends(round, anchors):
        if round.index == round_ and trainer.accelerator.process_index == rank and not told.exists():
            told.touch()
            os.kill(os.getpid(), number)
        return play(round, anchors)

    trainer.game.play = ends


def noise_in(trainer, rank, round_):
    """The conjecturer becomes noise before the round after `round_`, another one on each process."""
    play, generator = trainer.game.play, torch.Generator().manual_seed(rank)

    def plays(round, anchors):
        if round.index == round_:
            with torch.no_grad():
                for _, parameter in trainer.policies.named_parameters("conjecturer"):
                    parameter.normal_(0, 1, generator=generator)
        return play(round, anchors)

    trainer.game.play = plays


def main(output, resume, config, signal=None, noise=None):
    trainer = make_trainer(output, **config)
    rank = trainer.accelerator.process_index
    if signal is not None:
        ending_at(trainer, **signal)
    if noise is not None:
        noise_in(trainer, rank, noise)
    trainer.train(resume_from_checkpoint=resume)
    found = {
        "processes": trainer.accelerator.num_processes,
        "distributed_type": str(trainer.accelerator.distributed_type),
        "wrapped": type(trainer.model_wrapped).__name__,
        "weights": digest(weights(trainer)),
        "optimizer": digest(optimizer_state(trainer)),
        "remembered": remembered(trainer),
        "guard": trainer.guard.state_dict(),
        "memory": {
            "objectives": {role: one.objective.state_dict() for role, one in trainer.learners.items()},
            "replays": {
                role: [asdict(s) for s in one.replay.kept] for role, one in trainer.learners.items() if one.replay
            },
            "entropy": {role: one.loss.entropy.state_dict() for role, one in trainer.learners.items()},
            "solve_rate": trainer.solve_rate.state_dict(),
            "game": json.loads(json.dumps(trainer.game.state_dict(), default=lambda value: value.tolist())),
            "conjecturer_guard": trainer.conjecturer_guard and trainer.conjecturer_guard.state_dict(),
        },
    }
    (Path(output) / f"rank{rank}.json").write_text(json.dumps(found))


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


if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    try:
        main(**job)
    except SystemExit as end:
        leave(end.code)
    except Exception:
        fail(job["output"])
    leave()
