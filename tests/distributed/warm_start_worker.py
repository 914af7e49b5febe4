"""One of two processes under an engine, or the only one: SFT, IPO and iterated play, in one start.

Started by test_warm_starts.py, never collected by pytest. Each process writes what it saw to <output>/rank<r>.json;
the runs lie beside it.
"""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.distributed import fsdp_on_cpu

fsdp_on_cpu.turn_on()
if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true":
    import deepspeed

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # as in engine_worker.py

import pytest  # noqa: E402

from countdown_selfplay.games.critic_discernment import CriticDiscernment  # noqa: E402
from countdown_selfplay.warm_starts import training  # noqa: E402
from countdown_selfplay.warm_starts.cli import cdg, ipo, sft  # noqa: E402
from tests.distributed.two_processes import leave  # noqa: E402
from tests.warm_starts.iterated.test_driver import PROBLEMS, ROLES, driver  # noqa: E402

torch.set_num_threads(1)
trained = []  # of each training: the engine, the wrapper, how many parameters it cut up
train = training.train


def watched(trainer, *more):
    found = train(trainer, *more)
    parameters = [*trainer.model.parameters()]
    cut = sum(hasattr(p, "full_tensor") or hasattr(p, "ds_tensor") for p in parameters)
    wrapped = [cls.__name__ for cls in type(trainer.model_wrapped).__mro__]
    trained.append([trainer.engine.name, wrapped, cut > 0, trainer.accelerator.num_processes])
    return found


training.train = watched
sys.modules["countdown_selfplay.warm_starts.iterated.retrain"].train = watched


COMMANDS = {"sft": sft, "ipo": ipo, "cdg": cdg}


class Failing(CriticDiscernment):
    """Fails on the process that plays it, when all have sampled."""

    def play(self, round, problems):
        super().play(round, problems)
        raise RuntimeError(f"by process {os.environ.get('RANK', '0')}")


def flags(settings):
    return [word for name, value in settings.items() for word in (f"--{name}", str(value))]


def main(output, runs, common):
    """`runs`: of each run its command, or iterated, and its settings."""
    found = {}
    for name, (command, settings) in runs.items():
        trained.clear()
        folder = Path(output) / name
        if command == "failing":
            with pytest.raises(RuntimeError) as said:
                driver(folder, PROBLEMS[:2], game=Failing(0.25, 2, "answer"), **settings, **common).run()
            told = str(said.value)
        elif command == "iterated":
            roles = {kind: replace(ROLES[kind], **changes) for kind, changes in settings["roles"].items()}
            own = {key: value for key, value in settings.items() if key != "roles"}
            told = [driver(folder, PROBLEMS[:6], roles, **own, **common).run() for _ in range(2)]
        else:
            told = COMMANDS[command].main(flags({**settings, **common, "output_dir": folder}))
        found[name] = {"told": told, "trained": list(trained)}
    (Path(output) / f"rank{os.environ.get('RANK', '0')}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
    leave()
