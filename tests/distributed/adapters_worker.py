"""One of two processes under an engine: runs that start from an adapter's folder, which end with their exports.

Started by test_adapters.py, never collected by pytest. The main process writes what it was told of the exports to
<output>/told.json; the runs lie beside it.
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.distributed import fsdp_on_cpu

fsdp_on_cpu.turn_on()
if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true":
    import deepspeed

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # as in engine_worker.py

from tests.distributed.two_processes import leave  # noqa: E402
from tests.trainer.conftest import make_trainer, ran  # noqa: E402


def main(output, start, sharings):
    told = {}
    for sharing in sharings:
        folder = Path(output) / sharing
        trainer = ran(make_trainer(folder, model=start, policy_sharing=sharing, max_steps=1))
        told[sharing] = [[path.name, said, right] for path, said, right in trainer.exports.write_last(folder)]
        del trainer
    if os.environ.get("RANK", "0") == "0":
        (Path(output) / "told.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
    leave()
