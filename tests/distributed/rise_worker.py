"""One rank of two that score the same answers of a prover: the rises of each problem into rank<r>.json. On rank 1 the
first half of the problems alone has credit."""

import json
import sys
from pathlib import Path

import torch
import torch.distributed

sys.path.insert(0, str(Path(__file__).parents[2]))

from countdown_selfplay.training.student import rise_of
from tests.distributed.two_processes import leave
from tests.trainer.conftest import make_trainer
from tests.trainer.test_student_progress import STUDENT, N, played

COUNT = 32


def main(output):
    trainer = make_trainer(Path(output) / "run", **STUDENT, max_steps=3)
    trainer.train()
    rank = torch.distributed.get_rank()
    round, own = played(trainer, COUNT)
    shared = [own]
    torch.distributed.broadcast_object_list(shared, src=0)
    kept_B = torch.ones(COUNT * N, dtype=torch.bool)
    kept_B[COUNT * N // 2 :] = rank == 0
    turn = round.credit(shared[0], kept_B=kept_B)
    found = rise_of(trainer.player.rollouts, turn, 1).tolist()
    held = [repr(answer.key) for answer in trainer.learners["prover"].held_back.kept]
    told = {"rises": found, "held": held, "credited": int((turn.advantages_B != 0).sum())}
    (Path(output) / f"rank{rank}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
    leave()
