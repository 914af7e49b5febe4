"""One rank of a two-process run that is resumed in later epochs; started by torchrun from test_epochs.py.

Writes what it holds after the straight run and after each resume to <output>/rank<r>.json.
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.distributed.two_processes import leave
from tests.distributed.worker import digest
from tests.trainer.conftest import make_trainer, optimizer_state, weights
from tests.trainer.test_resume_epochs import lines, memory
from tests.trainer.test_round import problems


def play(folder, anchors, config, resume=None):
    trainer = make_trainer(folder, trainer={"train_dataset": anchors}, **config)
    played, game = {}, trainer.game.play

    def spied(round, anchors):
        played[round.index] = [problem.key for problem in anchors]
        return game(round, anchors)

    trainer.game.play = spied
    trainer.train(resume_from_checkpoint=resume)
    return {
        "processes": trainer.accelerator.num_processes,
        "weights": digest(weights(trainer)),
        "optimizer": digest(optimizer_state(trainer)),
        "memory": memory(trainer),
        "anchors": played,
        "lines": lines(trainer, "metrics", 0) if trainer.is_world_process_zero() else None,
    }


def main(output, problems_an_epoch, resumes, config):
    output, anchors = Path(output), problems(problems_an_epoch)
    found = {"straight": play(output / "run", anchors, config)}
    for step in resumes:
        found[str(step)] = play(output / f"run{step}", anchors, config, str(output / "run" / f"checkpoint-{step}"))
    (output / f"rank{os.environ['RANK']}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
    leave()
