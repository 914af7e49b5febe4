"""One rank of two processes that exchange what they have; started by torchrun from test_two_processes.py."""

import json
import sys
from pathlib import Path

import torch.distributed
from accelerate import Accelerator

sys.path.insert(0, str(Path(__file__).parents[2]))

from countdown_selfplay.distributed.launch import leave_process_group
from countdown_selfplay.distributed.processes import processes_of
from countdown_selfplay.errors import DataError
from tests.distributed.two_processes import leave


def main(output):
    processes = processes_of(Accelerator(cpu=True))
    rank, ran = processes.rank, []

    def fail():
        ran.append(rank)
        raise DataError(f"from process {rank}")

    processes.wait()
    found = {
        "gather": processes.gather([rank] * (rank + 1)),
        "total": processes.total([0.1, 10.0**rank]),
        "largest": processes.largest([float(rank), -float(rank)]),
        "together": processes.together(lambda: rank),
        "main": processes.main,
    }
    try:
        processes.together(fail)
    except DataError as error:
        found |= {"error": str(error), "ran": ran}
    leave_process_group()
    found["left"] = not torch.distributed.is_initialized()
    (Path(output) / f"rank{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
    leave()
