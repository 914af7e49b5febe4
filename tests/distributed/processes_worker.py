"""One of two processes that exchange what they have."""

import torch.distributed
from accelerate import Accelerator

from countdown_selfplay.distributed.launch import leave_process_group
from countdown_selfplay.distributed.processes import processes_of
from countdown_selfplay.errors import DataError


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
        "together": processes.together(lambda: rank),
        "main": processes.main,
    }
    try:
        processes.together(fail)
    except DataError as error:
        found |= {"error": str(error), "ran": ran}
    leave_process_group()
    found["left"] = not torch.distributed.is_initialized()
    return found
