"""One rank of a two-process run: trains as told by a JSON argument and writes what it holds at the end to
<output>/rank<r>.json.

Started by torchrun from test_two_processes.py, never collected by pytest.
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

from tests.trainer.conftest import make_trainer, optimizer_state, remembered, weights


def digest(tensors):
    total = hashlib.blake2b(digest_size=16)
    for name in sorted(tensors):
        total.update(name.encode() + tensors[name].contiguous().numpy().tobytes())
    return total.hexdigest()


def ending_at(trainer, rank, number, round_):
    """The process of `rank` gets the signal when it begins the round after `round_`; not when torchrun has restarted
    it."""
    play = trainer.game.play

    def ends(round, anchors):
        fresh = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
        if fresh and round.index == round_ and trainer.accelerator.process_index == rank:
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
            "objectives": {role: o.state_dict() for role, o in trainer.objectives.items()},
            "replays": {role: [asdict(s) for s in replay.kept] for role, replay in trainer.replays.items()},
            "entropy": {role: loss.entropy.state_dict() for role, loss in trainer.losses.items()},
            "solve_rate": trainer.solve_rate.state_dict(),
            "game": json.loads(json.dumps(trainer.game.state_dict(), default=lambda value: value.tolist())),
            "conjecturer_guard": trainer.conjecturer_guard and trainer.conjecturer_guard.state_dict(),
        },
    }
    (Path(output) / f"rank{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    try:
        main(**json.loads(sys.argv[1]))
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        time.sleep(5)  # torchrun ends the other process when one has left: both are to be heard
        raise SystemExit(1) from None
