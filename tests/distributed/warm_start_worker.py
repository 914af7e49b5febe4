"""One of two processes under an engine, or the only one: SFT, IPO and iterated play, in one start."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from countdown_selfplay.games.critic_discernment import CriticDiscernment
from countdown_selfplay.warm_starts import training
from countdown_selfplay.warm_starts.cli import cdg, ipo, sft
from tests.warm_starts.iterated.test_driver import PROBLEMS, ROLES, driver

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


def main(output, runs):
    """`runs`: of each run its command, or iterated, and its settings."""
    found, common = {}, {"use_cpu": True}
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
            given = {**settings, **common, "output_dir": folder}
            told = COMMANDS[command].main([word for key, value in given.items() for word in (f"--{key}", str(value))])
        found[name] = {"told": told, "trained": list(trained)}
    return found
