"""One rank of a two-process run that is resumed in later epochs; started by torchrun from test_epochs.py.

Writes what it holds after the straight run and after each resume to <output>/rank<r>.json.
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from countdown_selfplay.errors import DataError
from tests.distributed.two_processes import leave
from tests.distributed.worker import digest
from tests.trainer.conftest import make_trainer, optimizer_state, weights
from tests.trainer.test_resume_epochs import lines, memory, stream
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
    output, found = Path(output), {}
    for kind, make in (("rows", problems), ("stream", stream)):
        anchors = make(problems_an_epoch)
        found[kind] = {"straight": play(output / kind, anchors, config)}
        for step in resumes:
            resume = str(output / kind / f"checkpoint-{step}")
            found[kind][str(step)] = play(output / f"{kind}{step}", anchors, config, resume)
    try:
        play(output / "short", stream(5), config)
    except DataError as error:  # on both processes, at the first round: nobody waits for the other
        found["short"] = str(error)
    (output / f"rank{os.environ['RANK']}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
    leave()
